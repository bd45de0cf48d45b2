//! Options that name one outbox, from the command line or from a configuration file.

use posthaste_redis::OutboxName;
use posthaste_sqlx::{Layout, SchemaName, TableName};

use crate::{InvalidStore, OutboxRef, SecretUrl};

/// A store, the outbox in it, and how the store is reached. Its `Debug` shows no secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreSpec {
    /// The URL of the store.
    pub url: SecretUrl,
    /// The table; on Redis, the name of the outbox. Default: `outbox_event`, on Redis `outbox`, or the table of the
    /// layout. It is checked when the store is opened, because each store has its own rule for names.
    pub table: Option<String>,
    /// The schema, on PostgreSQL only. Default: `public`.
    pub schema: Option<SchemaName>,
    /// Describes a table that another program made. Default: `None`, a table of Posthaste's own.
    pub layout: Option<Layout>,
    /// Whether the URL leads to a PgBouncer in transaction mode. Default: no.
    pub pgbouncer: bool,
}

impl StoreSpec {
    /// The default outbox of this store: no name, no schema, no layout, no PgBouncer.
    pub fn new(url: SecretUrl) -> Self {
        Self { url, table: None, schema: None, layout: None, pgbouncer: false }
    }

    /// Sets the table or, on Redis, the name of the outbox. `None` keeps the default.
    pub fn with_table(mut self, table: impl Into<Option<String>>) -> Self {
        self.table = table.into();
        self
    }

    /// Sets the schema, on PostgreSQL. `None` means `public`.
    pub fn with_schema(mut self, schema: impl Into<Option<SchemaName>>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Describes a table that another program made. `None` means a table of Posthaste's own.
    pub fn with_layout(mut self, layout: impl Into<Option<Layout>>) -> Self {
        self.layout = layout.into();
        self
    }

    /// Whether the URL leads to a PgBouncer in transaction mode.
    pub fn with_pgbouncer(mut self, pgbouncer: bool) -> Self {
        self.pgbouncer = pgbouncer;
        self
    }

    /// The table and the schema, or the name on Redis, with defaults filled in.
    pub fn outbox_ref(&self) -> OutboxRef {
        let usual = || match (&self.layout, self.url.is_redis()) {
            (Some(layout), _) => layout.table_name().to_string(),
            (None, true) => OutboxName::default().to_string(),
            (None, false) => TableName::default().to_string(),
        };
        OutboxRef { table: self.table.clone().unwrap_or_else(usual), schema: self.schema.clone() }
    }

    /// Whether both name the same outbox. Two different URLs of one server count as different.
    pub fn is_same(&self, other: &Self) -> bool {
        let named = |store: &Self| (store.outbox_ref().table, store.schema.clone().unwrap_or_default());
        self.url == other.url && named(self) == named(other)
    }

    /// The table of an outbox in an SQL database.
    ///
    /// # Errors
    ///
    /// The name cannot be that of a table.
    pub fn table(&self) -> Result<TableName, InvalidStore> {
        self.outbox_ref().table.parse().map_err(|error| InvalidStore::new(format!("--table: {error}")))
    }

    /// The name of an outbox on Redis.
    ///
    /// # Errors
    ///
    /// The name cannot be that of an outbox.
    pub fn outbox(&self) -> Result<OutboxName, InvalidStore> {
        OutboxName::new(&self.outbox_ref().table)
            .map_err(|error| InvalidStore::new(format!("--table: {error}")))
    }
}
