//! What the database's catalogue says about a foreign table, and whether the key of a layout tells its rows apart.

use std::collections::HashMap;

use super::session::{BoundQuery, QueryRow, Session, number, text};
use super::{ColumnName, Layout};

/// Questions about a table whose name is bound.
#[derive(Debug)]
pub(crate) struct CatalogueQueries {
    /// The table as the catalogue knows it, with `{table}` for its name.
    pub(crate) table: &'static str,
    /// `name`, `kind`, `chars` and `nullable` of each column.
    pub(crate) columns: &'static str,
    /// The columns of unique indexes: `index_name` and `name`.
    pub(crate) unique: &'static str,
    /// `has_indexes` is 0 for what has none of its own.
    pub(crate) has_indexes: &'static str,
}

/// A table as the catalogue has it.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) columns: Vec<Column>,
    /// The columns of each of its unique indexes, the primary key among them. None of a view, which has none of its
    /// own, whatever is behind it.
    pub(crate) unique: Option<Vec<Vec<String>>>,
}

/// A column as the catalogue has it.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Its type; of an enumeration `enum(` and all its values between quotes.
    pub(crate) kind: String,
    /// The most characters that it takes, if there is a limit.
    pub(crate) chars: Option<usize>,
    pub(crate) nullable: bool,
}

impl Catalogue {
    /// What the catalogue says of a table; `None` if there is none.
    pub(super) async fn look_up(
        session: &mut dyn Session,
        queries: &CatalogueQueries,
        table: &str,
    ) -> Result<Option<Self>, sqlx::Error> {
        let query = |text: &str| BoundQuery::new(text, vec![table.into()]);
        let columns: Vec<Column> = session.rows(&query(queries.columns), column).await?;
        if columns.is_empty() {
            return Ok(None);
        }
        let has_indexes = session.number(&query(queries.has_indexes), "has_indexes").await? != 0;
        let part = |row: &QueryRow| {
            // A part of an index that is an expression has no column.
            let column = row.text("name").ok().flatten().unwrap_or_default().to_owned();
            Ok((text(row, "index_name")?, column))
        };
        let mut unique: HashMap<String, Vec<String>> = HashMap::new();
        for (index, column) in session.rows::<_, Vec<_>>(&query(queries.unique), part).await? {
            unique.entry(index).or_default().push(column);
        }
        Ok(Some(Self { columns, unique: has_indexes.then(|| unique.into_values().collect()) }))
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Why the key of a layout does not tell the rows of this table apart. Two rows with one key would be taken for
    /// one, and one of them would never be delivered.
    pub(super) fn doubts_about_the_key(&self, layout: &Layout) -> Vec<String> {
        let Some(unique) = &self.unique else { return Vec::new() };
        let key: Vec<&str> = layout.key_columns().into_iter().map(ColumnName::as_str).collect();
        let can_be_null = |name: &&&str| self.column(name).is_some_and(|column| column.nullable);
        let mut doubts: Vec<String> = key
            .iter()
            .filter(can_be_null)
            .map(|name| format!("the column {name} of its key can be NULL and should be NOT NULL"))
            .collect();
        let is_covered = |index: &Vec<String>| index.iter().all(|column| key.contains(&column.as_str()));
        if !unique.iter().any(is_covered) {
            doubts.push(format!(
                "nothing keeps two of its rows from having the same {}, so one of them could be lost: name the columns \
                 of its primary key as `key`, or let its owner make a unique index",
                key.join(" and ")
            ));
        }
        doubts
    }
}

fn column(row: &QueryRow) -> Result<Column, sqlx::Error> {
    let chars = row.number("chars").ok().flatten().and_then(|chars| usize::try_from(chars).ok());
    let nullable = number(row, "nullable")? != 0;
    Ok(Column { name: text(row, "name")?, kind: text(row, "kind")?, chars, nullable })
}
