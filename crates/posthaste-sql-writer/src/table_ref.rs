//! References to outbox tables, and how a table name gets into a statement.

use crate::{SchemaName, TableName};

/// An outbox table: its name and, on PostgreSQL, its schema.
///
/// In a statement template, `"{table}` (on MySQL `` `{table} ``) is replaced by the table, with its schema if it has
/// one; it also begins the names of the side tables. `{name}` and `{schema}` are replaced by the bare names. Nothing
/// else is ever put into a text: values are bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRef {
    table: TableName,
    schema: Option<SchemaName>,
}

impl TableRef {
    /// A table without a schema.
    pub fn new(table: TableName) -> Self {
        Self { table, schema: None }
    }

    /// The same table in this schema.
    pub fn in_schema(self, schema: SchemaName) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// The name of the table.
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// The schema that contains the table.
    pub fn schema(&self) -> Option<&SchemaName> {
        self.schema.as_ref()
    }

    /// The template with the names of this table.
    ///
    /// ```
    /// use posthaste_sql_writer::{SchemaName, TableName, TableRef};
    ///
    /// let table_ref = TableRef::new(TableName::default()).in_schema(SchemaName::default());
    /// assert_eq!(table_ref.text(r#"DELETE FROM "{table}""#), r#"DELETE FROM "public"."outbox_event""#);
    /// ```
    pub fn text(&self, template: &str) -> String {
        let Some(schema) = &self.schema else {
            return template.replace("{table}", self.table.as_str());
        };
        let qualified = format!("\"{schema}\".\"{}", self.table);
        let text = template.replace("\"{table}", &qualified);
        text.replace("{name}", self.table.as_str()).replace("{schema}", schema.as_str())
    }
}
