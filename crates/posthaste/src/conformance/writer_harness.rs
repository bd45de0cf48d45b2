//! The harness of the Writer suite: what a driver implements.

use async_trait::async_trait;

use super::writer_fixture::Scene;
use super::writer_script::{Elsewhere, OwnEnd, Script, ScriptError, Way};
use crate::error::WriteError;
use crate::event::{Event, EventId};
use crate::writer::Receipt;

/// One Writer under test, on an empty table that refuses events of the type [`Scene::UNWRITABLE`]. Every case gets a
/// fresh one.
#[async_trait]
pub trait WriterHarness: Send + Sync {
    /// The fixture of the case: a [`Scene`] on the store. The Writer is made for its [`outbox`](Scene::outbox).
    fn scene(&self) -> &Scene;

    /// Plays a script in one transaction of the Writer, in the idiom of the driver. Returns the results of its writes,
    /// in order. Stops at the first error and rolls back.
    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError>;

    /// Begins a transaction as a service does, inserts these events in one call of the Writer, and ends the transaction
    /// as `end` says.
    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError>;

    /// Tries to insert an event outside a transaction. `None` if the Writer takes the driver's type of a transaction,
    /// so that such a call does not compile; then a `compile_fail` test must show that it does not.
    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>>;

    /// Writes an event with the Writer on a connection to another database. That database has an outbox of the same
    /// name, and is a copy of the Writer's own if that is possible. `None` if the Writer takes no connection in this
    /// way.
    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere>;

    /// The number of rows in the service's own table; `None` if there is no such table.
    async fn business_rows(&self) -> Option<u64>;

    /// How the database behaves.
    fn capabilities(&self) -> WriterCapabilities;

    /// Removes everything that the case left behind. Called at its end, even if it failed.
    async fn close(&self);
}

/// How the database under a Writer behaves. The default is a database in which a failed statement affects nothing
/// but itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCapabilities {
    /// A failed statement aborts its transaction, as on PostgreSQL. Default: `false`.
    pub failed_statement_aborts: bool,
}

impl WriterCapabilities {
    /// Sets whether a failed statement aborts its transaction.
    #[must_use]
    pub const fn with_failed_statement_aborts(self, failed_statement_aborts: bool) -> Self {
        Self { failed_statement_aborts, ..self }
    }
}
