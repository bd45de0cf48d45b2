//! The Writer for diesel, and the transaction that it opens.

use std::fmt;

use diesel::Connection;
use posthaste::{CommitError, Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{OutboxStore, WriterContext};

use crate::connection::expect_ready;
use crate::database::OutboxConnection;
use crate::open_transaction::{OpenTransaction, insert_into_own};

/// Writes events in transactions on connections of diesel's: see [`PgWriter`](crate::PgWriter),
/// [`MySqlWriter`](crate::MySqlWriter) and [`SqliteWriter`](crate::SqliteWriter). Cheap to clone.
///
/// It blocks as diesel does: from async code call it where diesel may be called, in
/// `tokio::task::spawn_blocking` for example.
pub struct Writer<C: OutboxConnection> {
    context: WriterContext<C::Database>,
}

impl<C: OutboxConnection + Connection> Writer<C> {
    /// A Writer for this outbox in a store of `posthaste-sqlx` for the same database.
    pub fn new(store: &impl OutboxStore<C::Database>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see
    /// [`WriterContext`].
    pub fn from_context(context: WriterContext<C::Database>) -> Self {
        Self { context }
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err` or
    /// panics. Refused where a transaction is open already; there is [`insert`](Self::insert) for that.
    pub fn transaction<T, E>(
        &self,
        connection: &mut C,
        work: impl FnOnce(&mut Tx<'_, C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(connection).map_err(WriteError::from)?;
        let answer = work(&mut tx)?;
        tx.commit()?;
        Ok(answer)
    }

    /// Begins a transaction, for those who end it themselves. On SQLite it holds the write lock from its
    /// start (`BEGIN IMMEDIATE`).
    pub fn begin<'c>(&self, connection: &'c mut C) -> Result<Tx<'c, C>, StoreError> {
        Ok(Tx(Some(expect_ready(OpenTransaction::begin(connection, &self.context))?)))
    }

    /// Inserts one event into the transaction that is open on this connection, which diesel's
    /// `connection.transaction(…)` opened for example. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction it is refused. In a savepoint the receipt is only a wake-up.
    pub fn insert(&self, connection: &mut C, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event])
    }

    /// Inserts events, as [`insert`](Self::insert) does, in as few statements as the database can.
    pub fn insert_all(&self, connection: &mut C, events: Vec<Event>) -> Result<Receipt, WriteError> {
        expect_ready(insert_into_own(connection, &self.context, events))
    }
}

impl<C: OutboxConnection> Clone for Writer<C> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone() }
    }
}

impl<C: OutboxConnection> fmt::Debug for Writer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("context", &self.context).finish()
    }
}

/// A transaction whose [`commit`](Self::commit) proves, commits and dispatches. Dropped unfinished, it is
/// rolled back.
#[must_use = "dropped, the transaction is rolled back"]
// None only while it is ended.
pub struct Tx<'c, C: OutboxConnection>(Option<OpenTransaction<'c, C>>);

impl<C: OutboxConnection + Connection> Tx<'_, C> {
    /// The connection, for everything that is not an event:
    /// `diesel::insert_into(orders).values(order).execute(tx.conn())?`.
    pub fn conn(&mut self) -> &mut C {
        self.open().connection()
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Writes events in as few statements as the database can, and answers their ids, those that a hook left
    /// out excepted.
    pub fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        expect_ready(self.open().write(events))
    }

    /// Runs `work` in a savepoint: what it wrote belongs to this transaction when it answers `Ok`, and never
    /// was when it answers `Err` or panics. Savepoints may be nested.
    pub fn savepoint<T, E>(&mut self, work: impl FnOnce(&mut Tx<'_, C>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<WriteError>,
    {
        expect_ready(self.open().open_savepoint()).map_err(WriteError::from)?;
        let savepoint = Savepoint { tx: self, is_open: true };
        let answer = work(savepoint.tx)?;
        savepoint.release().map_err(WriteError::from)?;
        Ok(answer)
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that cannot be committed any more answers
    /// an error, although COMMIT of PostgreSQL (after a failed statement) and of MySQL (after a deadlock)
    /// would answer `Ok`.
    ///
    /// An INSERT that has just succeeded proves that all is well, so it costs nothing to write events last;
    /// after any other use of the connection the proof is a statement of its own.
    pub fn commit(mut self) -> Result<(), CommitError> {
        match self.0.take() {
            Some(open) => expect_ready(open.commit()),
            None => Ok(()),
        }
    }

    /// Rolls back: the events never were.
    pub fn rollback(mut self) -> Result<(), StoreError> {
        match self.0.take() {
            Some(open) => expect_ready(open.rollback()),
            None => Ok(()),
        }
    }
}

impl<'c, C: OutboxConnection> Tx<'c, C> {
    fn open(&mut self) -> &mut OpenTransaction<'c, C> {
        self.0.as_mut().expect("it is ended by what takes it")
    }
}

impl<C: OutboxConnection> Drop for Tx<'_, C> {
    fn drop(&mut self) {
        // An error leaves a connection behind that diesel and its pools know to be broken.
        if let Some(open) = self.0.take() {
            let _ = expect_ready(open.rollback());
        }
    }
}

impl<C: OutboxConnection> fmt::Debug for Tx<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

/// An open savepoint, rolled back unless it is released.
struct Savepoint<'t, 'c, C: OutboxConnection> {
    tx: &'t mut Tx<'c, C>,
    is_open: bool,
}

impl<C: OutboxConnection> Savepoint<'_, '_, C> {
    fn release(mut self) -> Result<(), StoreError> {
        self.is_open = false;
        expect_ready(self.tx.open().release_savepoint())
    }
}

impl<C: OutboxConnection> Drop for Savepoint<'_, '_, C> {
    fn drop(&mut self) {
        // An error leaves the transaction in a state that its proof does not pass.
        if self.is_open {
            let _ = expect_ready(self.tx.open().roll_back_savepoint());
        }
    }
}
