//! What a service does in one transaction, as data, so that every driver plays it in its own idiom.

use crate::error::{BoxError, CommitError, StoreError, WriteError};
use crate::event::Event;

/// One transaction: what happens in it, and how it ends.
#[derive(Clone, Debug)]
pub struct Script {
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
}

/// Something that a service does in its transaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes one event: `tx.write(event)`.
    Write(Event),
    /// Writes events in one go: `tx.write_all(events)`.
    WriteAll(Vec<Event>),
    /// Writes an event of the type [`Scene::UNWRITABLE`](super::Scene::UNWRITABLE), `tx.write(event)`, which
    /// the database refuses. Its error is swallowed.
    FailedWrite(Event),
    /// Runs steps in a savepoint of the Writer's own: `tx.savepoint()`, or what the driver has for it.
    Savepoint {
        /// What happens in it.
        steps: Vec<Step>,
        /// How it ends.
        end: SavepointEnd,
    },
    /// Runs steps between `SAVEPOINT mine` and `ROLLBACK TO mine`, which the service sends itself, as texts
    /// on the connection; the events are written by the transaction around it.
    Undone(Vec<Step>),
    /// Adds a row to a table of the service's own.
    Business,
    /// A statement of the service that fails. Its error is swallowed.
    FailedStatement,
    /// The transaction is lost in the database's own way, and nobody tells the driver: by a failed
    /// statement where that aborts it, by a statement that rolls back (`INSERT OR ROLLBACK`), or as the
    /// victim of a deadlock. Its error is swallowed.
    Abort,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// It is left unfinished: dropped, or where a driver has nothing to drop, left by a panic.
    Drop,
}

/// How a savepoint ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointEnd {
    /// What was written in it belongs to what is around it.
    Release,
    /// What was written in it never was.
    Rollback,
    /// It is left unfinished, as [`End::Drop`].
    Drop,
}

/// How a transaction of the service's own ends, after events were inserted through the receipt's door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEnd {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// The events were inserted in a savepoint of the service's own, which is released; then it commits.
    SavepointReleased,
    /// The events were inserted in a savepoint of the service's own, which is rolled back; then it commits.
    SavepointRolledBack,
    /// It is lost as by [`Step::Abort`], and its COMMIT is sent all the same.
    Aborted,
}

/// Which of a Writer's doors an event goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A transaction of the Writer's own.
    Transaction,
    /// A transaction that the service began itself.
    Receipt,
}

/// What became of an event that was written on a connection to another database.
#[derive(Debug)]
pub struct Elsewhere {
    /// What the first call answered that was not `Ok`.
    pub answer: Result<(), WriteError>,
    /// How many events the outbox there has, after a COMMIT was sent all the same.
    pub stored: u64,
}

/// Why a script did not come to its end. What was open is rolled back.
#[derive(Debug)]
pub enum ScriptError {
    /// A write was refused.
    Write(WriteError),
    /// The commit said so.
    Commit(CommitError),
    /// Anything else; a case that does not expect it fails with it.
    Driver(BoxError),
}

impl From<WriteError> for ScriptError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<CommitError> for ScriptError {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

impl From<StoreError> for ScriptError {
    fn from(error: StoreError) -> Self {
        Self::Driver(error.into())
    }
}

impl From<BoxError> for ScriptError {
    fn from(error: BoxError) -> Self {
        Self::Driver(error)
    }
}

/// A script that commits.
pub(super) fn commit(steps: impl Into<Vec<Step>>) -> Script {
    Script { steps: steps.into(), end: End::Commit }
}

/// A script that ends like this.
pub(super) fn ending(end: End, steps: impl Into<Vec<Step>>) -> Script {
    Script { steps: steps.into(), end }
}

/// Writes an event with this id.
pub(super) fn write(id: &str) -> Step {
    Step::Write(event(id))
}

/// Writes an event with this id that the database refuses.
pub(super) fn failed_write(id: &str) -> Step {
    let event = Event::builder(super::Scene::UNWRITABLE).id(id).json_text("{}").build();
    Step::FailedWrite(event.expect("a good event"))
}

/// Writes events with these ids in one go.
pub(super) fn write_all(ids: &[&str]) -> Step {
    Step::WriteAll(events(ids))
}

/// Runs steps in a savepoint.
pub(super) fn savepoint(end: SavepointEnd, steps: impl Into<Vec<Step>>) -> Step {
    Step::Savepoint { steps: steps.into(), end }
}

pub(super) fn event(id: &str) -> Event {
    Event::builder("Tested").id(id).json_text("{}").build().expect("a good event")
}

pub(super) fn events(ids: &[&str]) -> Vec<Event> {
    ids.iter().map(|id| event(id)).collect()
}
