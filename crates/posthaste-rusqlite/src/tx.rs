//! Transactions and savepoints that hand their events to the outbox when they end.

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

/// A transaction on the service's own connection whose [`commit`](Self::commit) proves which rows exist, commits and
/// dispatches them. Derefs to the [`Transaction`] of rusqlite, and so to its [`Connection`]. Dropped before it ends, it
/// is rolled back.
#[must_use = "dropped, the transaction is rolled back"]
pub struct SqliteTx<'c> {
    // Declared before `ledger`, so that it is dropped first: the hooks must run after the rollback.
    tx: Transaction<'c>,
    /// What was written so far. A `RefCell`, because `write` takes `&self`: queries that borrow the connection may stay
    /// open while events are written.
    ledger: RefCell<Ledger>,
    context: WriterContext<Sqlite>,
}

impl SqliteWriter {
    /// Begins a transaction that holds the write lock from its start (`BEGIN IMMEDIATE`), so that no statement in it
    /// fails because another connection is writing. A connection to another file than that of the outbox is refused.
    pub fn begin<'c>(&self, connection: &'c mut Connection) -> Result<SqliteTx<'c>, StoreError> {
        expect_database(&self.context, connection)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        Ok(SqliteTx::new(tx, self.context.clone()))
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err` or panics.
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
        let result = work(&mut tx)?;
        tx.commit()?;
        Ok(result)
    }
}

impl<'c> SqliteTx<'c> {
    fn new(tx: Transaction<'c>, context: WriterContext<Sqlite>) -> Self {
        Self { tx, ledger: RefCell::default(), context }
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is returned like
    /// any other, and nothing is written.
    pub fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Writes events in one statement and returns their ids, without those that a hook suppressed.
    pub fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Rows may be born leased even inside a savepoint that an SQL text opened: the proof before COMMIT shows which
        // of these rows still exist.
        let (ids, receipt) = write(&self.context, &self.tx, events, Scope::Transaction)?;
        self.ledger.borrow_mut().record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint. Its events belong to this transaction when it is released, and are dropped when it is rolled
    /// back.
    pub fn savepoint(&mut self) -> Result<SqliteSavepoint<'_>, StoreError> {
        let savepoint = self.tx.savepoint().map_err(failed)?;
        Ok(SqliteSavepoint::new(savepoint, &self.ledger, &self.context))
    }

    /// Commits, and hands the events to the engine.
    ///
    /// Events of a savepoint that was rolled back are not dispatched. If COMMIT fails, the transaction is rolled back
    /// and none of its events is delivered.
    pub fn commit(self) -> Result<(), CommitError> {
        let Self { tx, ledger, context } = self;
        let ledger = ledger.into_inner();
        let present = match prove(context.statements(), &tx, &WrittenRows::new(ledger.ids_by_seq())) {
            Ok(present) => present,
            Err(error) => {
                // The hooks run after the rollback.
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
            // SQLite refused the COMMIT, and dropping the transaction rolled it back.
            Err(error) => {
                committing.rolled_back();
                Err(CommitError::RolledBack(failed(error)))
            }
        }
    }

    /// Rolls back: none of the events is stored.
    pub fn rollback(self) -> Result<(), StoreError> {
        // If SQLite has rolled back by itself, there is nothing to roll back.
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

/// The rows that the transaction still sees: a savepoint may have rolled some back.
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

/// The error for a transaction that ended before its commit, because SQLite rolled it back or an SQL text ended it.
/// If none of its rows exists, it was rolled back. Otherwise its outcome is unknown.
fn ended_before(ledger: Ledger, present: &HashSet<i64>) -> CommitError {
    if present.is_empty() {
        ledger.rolled_back();
        return CommitError::RolledBack(StoreError::NoTransaction);
    }
    drop(ledger.committing());
    CommitError::Unknown(StoreError::NoTransaction)
}

/// A savepoint in a [`SqliteTx`] or in another savepoint. Derefs to the [`Connection`]. Dropped before it ends, it is
/// rolled back.
#[must_use = "dropped, the savepoint is rolled back"]
pub struct SqliteSavepoint<'a> {
    // Dropped before the ledger, as in `SqliteTx`.
    savepoint: Savepoint<'a>,
    /// What was written in this savepoint; moves to `parent` when it is released.
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

    /// Releases the savepoint: its events now belong to the transaction or savepoint around it.
    pub fn release(self) -> Result<(), StoreError> {
        let Self { savepoint, ledger, parent, .. } = self;
        savepoint.commit().map_err(failed)?;
        parent.borrow_mut().absorb(ledger.into_inner());
        Ok(())
    }

    /// Rolls back everything written in this savepoint.
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
