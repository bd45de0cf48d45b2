//! Where one outbox is: what every way of naming it comes down to, typed or read from a configuration.

use posthaste_redis::OutboxName;
use posthaste_sqlx::{Layout, SchemaName, TableName};

use crate::failure::Usage;
use crate::place::Place;
use crate::redact::TypedUrl;

/// A store, the outbox in it, and how it is reached. Its `Debug` tells no secret.
#[derive(Clone, Debug)]
pub(crate) struct StoreSpec {
    pub(crate) url: TypedUrl,
    /// Default: that of the store or of the layout. What a good name is, the store decides.
    pub(crate) table: Option<String>,
    pub(crate) schema: Option<SchemaName>,
    /// The table is another's.
    pub(crate) layout: Option<Layout>,
    /// The URL leads to a PgBouncer in transaction mode.
    pub(crate) pgbouncer: bool,
}

impl StoreSpec {
    pub(crate) fn place(&self) -> Place {
        let usual = || match (&self.layout, self.url.is_redis()) {
            (Some(layout), _) => layout.table_name().to_string(),
            (None, true) => OutboxName::default().to_string(),
            (None, false) => TableName::default().to_string(),
        };
        Place { table: self.table.clone().unwrap_or_else(usual), schema: self.schema.clone() }
    }

    /// Whether both lead to the same outbox, as far as their URLs can tell.
    #[cfg(feature = "relay")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let place = |store: &Self| (store.place().table, store.schema.clone().unwrap_or_default());
        self.url == other.url && place(self) == place(other)
    }

    /// The outbox, where it is a table.
    pub(crate) fn table(&self) -> Result<TableName, Usage> {
        self.place().table.parse().map_err(|error| Usage::new(format!("--table: {error}")))
    }

    /// The outbox, where it is keys in Redis.
    pub(crate) fn outbox(&self) -> Result<OutboxName, Usage> {
        OutboxName::new(&self.place().table).map_err(|error| Usage::new(format!("--table: {error}")))
    }
}
