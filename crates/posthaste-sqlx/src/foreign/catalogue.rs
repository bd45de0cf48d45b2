//! What the database's catalogue says about a foreign table, and whether the key of a layout tells its rows apart.

use super::{ColumnName, Layout};

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
