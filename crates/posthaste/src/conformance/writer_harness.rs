//! What a driver brings to run the Writers' suite.

use async_trait::async_trait;

use super::writer_fixture::Scene;
use super::writer_script::{Elsewhere, OwnEnd, Script, ScriptError, Way};
use crate::error::WriteError;
use crate::event::{Event, EventId};
use crate::writer::Receipt;

/// One Writer under test, on an empty table that takes no events of the type [`Scene::UNWRITABLE`]. Every case gets a fresh one.
#[async_trait]
pub trait WriterHarness: Send + Sync {
    /// The engine that the Writer was made for: a [`Scene`] on the store, whose
    /// [`outbox`](Scene::outbox) the Writer has.
    fn scene(&self) -> &Scene;

    /// Plays a script in one transaction of the Writer, in the driver's own idiom, and answers what its
    /// writes answered, in order. Stops at the first error, and rolls back.
    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError>;

    /// Inserts events in one go into a transaction that the service began itself, which then ends like
    /// this.
    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError>;

    /// Tries to insert an event outside a transaction. None where that does not compile, because the
    /// Writer asks for the driver's type of a transaction; a `compile_fail` test has to show it then.
    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>>;

    /// Writes an event with the Writer on a connection to another database, which has an outbox of the same
    /// name: a copy of this one where that can be made. None where a Writer cannot be given a connection.
    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere>;

    /// How many rows the service's own table has; none if there is no such table.
    async fn business_rows(&self) -> Option<u64>;

    /// What the database does.
    fn capabilities(&self) -> WriterCapabilities;

    /// Removes what the case left behind; called at its end, also when it failed.
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
