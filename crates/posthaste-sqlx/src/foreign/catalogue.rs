//! Reads the database catalogue: the columns and unique indexes of a foreign table, and whether the key of a layout is
//! unique.

use std::collections::HashMap;

use super::session::{BoundQuery, QueryRow, Session, number, text};
use super::{ColumnName, Layout};

/// Catalogue queries of one database. The name of the table is bound.
#[derive(Debug)]
pub(crate) struct CatalogueQueries {
    /// The table as the catalogue names it, with `{table}` for its name.
    pub(crate) table: &'static str,
    /// Returns `name`, `kind`, `chars` and `nullable` of each column.
    pub(crate) columns: &'static str,
    /// Returns the columns of unique indexes: `index_name` and `name`.
    pub(crate) unique: &'static str,
    /// Returns `has_indexes`: 0 for a view, which cannot have indexes.
    pub(crate) has_indexes: &'static str,
}

/// A table as the catalogue describes it.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) columns: Vec<Column>,
    /// The columns of each unique index, including the primary key. `None` for a view, which has no indexes of its own.
    pub(crate) unique: Option<Vec<Vec<String>>>,
}

/// A column as the catalogue describes it.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type. For an enumeration: `enum(` and all its values between quotes.
    pub(crate) kind: String,
    /// The maximum length in characters, if there is one.
    pub(crate) chars: Option<usize>,
    pub(crate) nullable: bool,
}

impl Catalogue {
    /// Reads what the catalogue says about a table. `None` if the table does not exist.
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

    /// Reasons to believe that the key of a layout is not unique in this table. Two rows with the same key would be
    /// taken for one, and one of them would never be delivered.
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
                "no unique index keeps two of its rows from having the same {}, and one of them could be \
                 lost: name the columns of its primary key as `key`, or let its owner create a unique index",
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
