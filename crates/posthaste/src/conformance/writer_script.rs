//! Scripts: what a service does in one transaction, as data, so that every driver plays it in its own idiom.

use crate::error::{BoxError, CommitError, StoreError, WriteError};
use crate::event::Event;

/// One transaction: its steps, and how it ends. Exhaustive, because a harness must play all of it.
#[derive(Clone, Debug)]
pub struct Script {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
}

/// One step of a service in its transaction. Exhaustive, because a harness must implement every case.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes one event: `tx.write(event)`.
    Write(Event),
    /// Writes events in one call: `tx.write_all(events)`.
    WriteAll(Vec<Event>),
    /// Writes an event of the type [`Scene::UNWRITABLE`](super::Scene::UNWRITABLE) with `tx.write(event)`. The database
    /// refuses it, and the error is ignored.
    FailedWrite(Event),
    /// Runs steps in a savepoint of the Writer: `tx.savepoint()`, or the driver's equivalent.
    Savepoint {
        /// The steps in it.
        steps: Vec<Step>,
        /// How it ends.
        end: SavepointEnd,
    },
    /// Runs steps between `SAVEPOINT mine` and `ROLLBACK TO mine`, which the service sends as text on the connection.
    /// The transaction around it writes the events.
    Undone(Vec<Step>),
    /// Adds a row to a table of the service.
    Business,
    /// A statement of the service that fails. Its error is ignored.
    FailedStatement,
    /// Makes the database end the transaction without the driver noticing: by a failed statement where that aborts it,
    /// by a statement that rolls back (`INSERT OR ROLLBACK`), or as the victim of a deadlock. The error is ignored.
    Abort,
}

/// How a transaction ends. Exhaustive, because a harness must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// It is left unfinished: dropped, or left by a panic if the driver has nothing to drop.
    Drop,
}

/// How a savepoint ends. Exhaustive, because a harness must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointEnd {
    /// Released: its writes belong to the transaction or savepoint around it.
    Release,
    /// Rolled back: its writes are undone.
    Rollback,
    /// It is left unfinished, as [`End::Drop`].
    Drop,
}

/// How a transaction that the service began ends, after events were inserted into it. Exhaustive, because a harness
/// must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEnd {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// The events were inserted in a savepoint of the service, which is released; then the transaction commits.
    SavepointReleased,
    /// The events were inserted in a savepoint of the service, which is rolled back; then the transaction commits.
    SavepointRolledBack,
    /// It is ended as by [`Step::Abort`], and its COMMIT is sent anyway.
    Aborted,
}

/// How an event is written. Exhaustive, because a harness must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In a transaction of the Writer.
    Transaction,
    /// In a transaction that the service began.
    Receipt,
}

/// The result of writing an event on a connection to another database. Exhaustive, because a harness makes it.
#[derive(Debug)]
pub struct Elsewhere {
    /// The result of the first call that did not succeed.
    pub answer: Result<(), WriteError>,
    /// The number of events in that database's outbox after a COMMIT was sent anyway.
    pub stored: u64,
}

/// Why a script did not complete. What was open is rolled back. Exhaustive: a write, the commit, or anything else.
#[derive(Debug)]
pub enum ScriptError {
    /// A write was refused.
    Write(WriteError),
    /// The commit failed.
    Commit(CommitError),
    /// Any other error. A case that does not expect it fails with it.
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
