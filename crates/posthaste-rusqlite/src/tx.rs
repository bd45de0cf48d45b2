//! A transaction, and savepoints in it, that tell the outbox how they ended.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::sqlite::{Statements, WrittenRows};
use posthaste_sql_writer::{Sqlite, WriterContext};
use rusqlite::{Connection, Savepoint, Transaction, TransactionBehavior};

use crate::writer::{SqliteWriter, expect_database, failed, write};

/// A transaction on the service's own connection whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`Transaction`] of rusqlite, and so to its [`Connection`]. Dropped unfinished,
/// it is rolled back.
#[must_use = "dropped, the transaction is rolled back"]
pub struct SqliteTx<'c> {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: Transaction<'c>,
    ledger: RefCell<Ledger>,
    context: WriterContext<Sqlite>,
}

impl SqliteWriter {
    /// Begins a transaction that holds the write lock from its start (`BEGIN IMMEDIATE`), so that nothing
    /// in it fails because somebody else is writing. A connection to another file than that of the outbox is
    /// refused.
    pub fn begin<'c>(&self, connection: &'c mut Connection) -> Result<SqliteTx<'c>, StoreError> {
        expect_database(&self.context, connection)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        Ok(SqliteTx::new(tx, self.context.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err` or
    /// panics.
    ///
    /// ```
    /// # use posthaste::{BoxError, Event};
    /// # use posthaste_rusqlite::{SqliteTx, SqliteWriter};
    /// # fn run(writer: SqliteWriter, mut connection: rusqlite::Connection) -> Result<(), BoxError> {
    /// writer.transaction(&mut connection, |tx: &mut SqliteTx<'_>| {
    ///     tx.execute("INSERT INTO orders (id) VALUES (17)", [])?;
    ///     tx.write(Event::json("OrderPlaced", &17)?)?;
    ///     Ok::<_, BoxError>(())
    /// })
    /// # }
    /// ```
    pub fn transaction<T, E>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(connection).map_err(WriteError::from)?;
        let answer = work(&mut tx)?;
        tx.commit()?;
        Ok(answer)
    }
}

impl<'c> SqliteTx<'c> {
    fn new(tx: Transaction<'c>, context: WriterContext<Sqlite>) -> Self {
        Self { tx, ledger: RefCell::default(), context }
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Writes events in one statement and answers their ids, those that a hook left out excepted.
    pub fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows which
        // of them are still there.
        let (ids, receipt) = write(&self.context, &self.tx, events, Scope::Transaction)?;
        self.ledger.borrow_mut().record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    pub fn savepoint(&mut self) -> Result<SqliteSavepoint<'_>, StoreError> {
        let savepoint = self.tx.savepoint().map_err(failed)?;
        Ok(SqliteSavepoint::new(savepoint, &self.ledger, &self.context))
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. When COMMIT fails the transaction is rolled back
    /// and nothing of it will be delivered.
    pub fn commit(self) -> Result<(), CommitError> {
        let Self { tx, ledger, context } = self;
        let ledger = ledger.into_inner();
        let present = match prove(context.statements(), &tx, &WrittenRows::new(ledger.ids_by_seq())) {
            Ok(present) => present,
            Err(error) => {
                // The hooks hear of it after the rollback.
                drop(tx);
                ledger.rolled_back();
                return Err(CommitError::RolledBack(failed(error)));
            }
        };
        if tx.is_autocommit() {
            return Err(ended_before(ledger, &present));
        }
        let committing = ledger.committing();
        match tx.commit() {
            Ok(()) => {
                committing.committed(&present);
                Ok(())
            }
            // Refused, and then rolled back when the transaction was dropped.
            Err(error) => {
                committing.rolled_back();
                Err(CommitError::RolledBack(failed(error)))
            }
        }
    }

    /// Rolls back: the events never were.
    pub fn rollback(self) -> Result<(), StoreError> {
        // SQLite may have done so by itself, and then there is nothing to roll back.
        match self.tx.is_autocommit() {
            true => Ok(()),
            false => self.tx.rollback().map_err(failed),
        }
    }
}

impl<'c> Deref for SqliteTx<'c> {
    type Target = Transaction<'c>;
    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl fmt::Debug for SqliteTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTx").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

/// Which of these rows the transaction still sees: a savepoint may have taken some back.
fn prove(
    statements: &Statements,
    connection: &Connection,
    written: &WrittenRows,
) -> rusqlite::Result<HashSet<i64>> {
    if written.is_empty() {
        return Ok(HashSet::new());
    }
    if let Some((seq, id)) = written.only() {
        let mut present = connection.prepare_cached(&statements.present)?;
        let is_present: bool = present.query_row((seq, id), |row| row.get(0))?;
        return Ok(HashSet::from_iter(is_present.then_some(seq)));
    }
    let mut missing = connection.prepare_cached(&statements.missing)?;
    let missing = missing.query_map([written.to_json()], |row| row.get(0))?;
    Ok(written.present(missing.collect::<rusqlite::Result<Vec<i64>>>()?))
}

/// There is no transaction left to commit: SQLite rolled it back by itself, or somebody ended it by a
/// text. The rows themselves tell how it had ended.
fn ended_before(ledger: Ledger, present: &HashSet<i64>) -> CommitError {
    if present.is_empty() {
        ledger.rolled_back();
        return CommitError::RolledBack(StoreError::NoTransaction);
    }
    drop(ledger.committing());
    CommitError::Unknown(StoreError::NoTransaction)
}

/// A savepoint in a [`SqliteTx`] or in another savepoint. Derefs to the [`Connection`]. Dropped unfinished,
/// it is rolled back.
#[must_use = "dropped, the savepoint is rolled back"]
pub struct SqliteSavepoint<'a> {
    // Dropped before the ledger, as in `SqliteTx`.
    savepoint: Savepoint<'a>,
    ledger: RefCell<Ledger>,
    parent: &'a RefCell<Ledger>,
    context: &'a WriterContext<Sqlite>,
}

impl<'a> SqliteSavepoint<'a> {
    fn new(
        savepoint: Savepoint<'a>,
        parent: &'a RefCell<Ledger>,
        context: &'a WriterContext<Sqlite>,
    ) -> Self {
        Self { savepoint, ledger: RefCell::default(), parent, context }
    }

    /// Writes one event, as [`SqliteTx::write`] does.
    pub fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Writes events, as [`SqliteTx::write_all`] does.
    pub fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let (ids, receipt) = write(self.context, &self.savepoint, events, Scope::Transaction)?;
        self.ledger.borrow_mut().record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one.
    pub fn savepoint(&mut self) -> Result<SqliteSavepoint<'_>, StoreError> {
        let savepoint = self.savepoint.savepoint().map_err(failed)?;
        Ok(SqliteSavepoint::new(savepoint, &self.ledger, self.context))
    }

    /// Ends the savepoint; its events belong to what is around it now.
    pub fn release(self) -> Result<(), StoreError> {
        let Self { savepoint, ledger, parent, .. } = self;
        savepoint.commit().map_err(failed)?;
        parent.borrow_mut().absorb(ledger.into_inner());
        Ok(())
    }

    /// Undoes what was written in it.
    pub fn rollback(self) -> Result<(), StoreError> {
        self.savepoint.finish().map_err(failed)
    }
}

impl Deref for SqliteSavepoint<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.savepoint
    }
}

impl fmt::Debug for SqliteSavepoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSavepoint").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}
