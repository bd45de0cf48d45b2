//! Reference to one outbox within a store: table and schema or, on Redis, the name.

use std::fmt;

use posthaste_sqlx::{SchemaName, TableName};
use serde::Serialize;

/// An outbox within its store, in the form that people write: `shop.outbox_event`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutboxRef {
    /// The table, or the name in Redis.
    pub table: String,
    /// The schema on PostgreSQL; `None` if none was given.
    #[serde(serialize_with = "as_some_text", skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaName>,
}

impl Default for OutboxRef {
    fn default() -> Self {
        Self { table: TableName::default().to_string(), schema: None }
    }
}

impl OutboxRef {
    /// The command-line options that name this outbox, each after a space; empty for the default outbox.
    pub fn options(&self) -> String {
        let table = Some(&self.table).filter(|table| **table != TableName::default().to_string());
        let table = table.map(|table| format!(" --table {table}")).unwrap_or_default();
        let schema = self.schema.as_ref().map(|schema| format!(" --schema {schema}")).unwrap_or_default();
        table + &schema
    }
}

impl fmt::Display for OutboxRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.table)
    }
}

fn as_some_text<S: serde::Serializer>(name: &Option<SchemaName>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_ref().map(SchemaName::as_str).serialize(serializer)
}
