//! What a store has to offer to be measured: its own tables, and the three ways to write into them.

use std::sync::Arc;

use posthaste::{Event, Outbox, Store};

/// A database that can be measured.
pub(super) trait BenchStore: Send + Sync + 'static {
    type Tables: Tables;

    fn name(&self) -> &'static str;

    /// New, empty tables beside those made before.
    fn create(&self) -> impl Future<Output = anyhow::Result<Self::Tables>> + Send;

    /// Drops all tables that were made here.
    fn clear(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Drops everything that was made here, and disconnects.
    fn close(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// A business table and an outbox table.
pub(super) trait Tables: Clone + Send + Sync + 'static {
    type Writer: Writer;

    fn store(&self) -> Arc<dyn Store>;

    fn writer(&self, outbox: &Outbox) -> Self::Writer;

    /// One transaction with a row of business and no event.
    fn business(&self, number: u64, body: &str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// The same with an event that is inserted by hand, as somebody would without a library.
    fn hand_written(&self, number: u64, body: &str) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The store's Writer, on these tables.
pub(super) trait Writer: Clone + Send + Sync + 'static {
    /// One transaction with a row of business and one event.
    fn business_and_event(
        &self,
        number: u64,
        body: &str,
        event: Event,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One transaction with these events alone.
    fn events(&self, events: Vec<Event>) -> impl Future<Output = anyhow::Result<()>> + Send;
}
