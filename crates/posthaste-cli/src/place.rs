//! Which outbox: its table, and its schema if one was named.

use std::fmt;

use posthaste_sqlx::{SchemaName, TableName};
use serde::Serialize;

/// An outbox as people write it, and as one writes it back to the program.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Place {
    #[serde(serialize_with = "as_text")]
    pub(crate) table: TableName,
    #[serde(serialize_with = "as_some_text", skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<SchemaName>,
}

impl Place {
    /// The options that lead here, with a space before each; none for the default.
    pub(crate) fn options(&self) -> String {
        let table = Some(&self.table).filter(|table| **table != TableName::default());
        let table = table.map(|table| format!(" --table {table}")).unwrap_or_default();
        let schema = self.schema.as_ref().map(|schema| format!(" --schema {schema}")).unwrap_or_default();
        table + &schema
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        fmt::Display::fmt(&self.table, f)
    }
}

fn as_text<S: serde::Serializer>(name: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

fn as_some_text<S: serde::Serializer>(name: &Option<SchemaName>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_ref().map(SchemaName::as_str).serialize(serializer)
}
