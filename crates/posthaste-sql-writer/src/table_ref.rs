//! A reference to an outbox table, with its schema, and how its name comes into a statement.

use crate::{SchemaName, TableName};

/// An outbox table: its name and, where the database has such a thing, its schema.
///
/// In the text of a statement `"{table}` (on MySQL `` `{table} ``) stands for the table, with its schema if it has one, and begins
/// the names of its side tables too; `{name}` and `{schema}` are the bare names. Nothing else is ever put
/// into a text: values are bound.
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

    /// The schema that it stands in.
    pub fn schema(&self) -> Option<&SchemaName> {
        self.schema.as_ref()
    }

    /// The text of a statement about this table.
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
