//! The Writer for diesel, and the transactions that it begins.

use std::fmt;

use diesel::Connection;
use posthaste::{CommitError, Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{OutboxStore, WriterContext};

use crate::connection::expect_ready;
use crate::database::OutboxConnection;
use crate::open_transaction::{OpenTransaction, insert_into_own};

/// Writes events in transactions on connections of diesel: see [`PgWriter`](crate::PgWriter),
/// [`MySqlWriter`](crate::MySqlWriter) and [`SqliteWriter`](crate::SqliteWriter). Cheap to clone.
///
/// It blocks, as diesel does: in async code call it inside `tokio::task::spawn_blocking`, for example.
pub struct Writer<C: OutboxConnection> {
    context: WriterContext<C::Database>,
}

impl<C: OutboxConnection + Connection> Writer<C> {
    /// A Writer for this outbox in a store of `posthaste-sqlx` for the same database.
    pub fn new(store: &impl OutboxStore<C::Database>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see `WriterContext::writer_only`.
    pub fn from_context(context: WriterContext<C::Database>) -> Self {
        Self { context }
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err` or panics. Refused
    /// if a transaction is open already; use [`insert`](Self::insert) there.
    pub fn transaction<T, E>(
        &self,
        connection: &mut C,
        work: impl FnOnce(&mut Tx<'_, C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(connection).map_err(WriteError::from)?;
        let result = work(&mut tx)?;
        tx.commit()?;
        Ok(result)
    }

    /// Begins a transaction, which the caller ends. On SQLite it holds the write lock from its start (`BEGIN
    /// IMMEDIATE`).
    pub fn begin<'c>(&self, connection: &'c mut C) -> Result<Tx<'c, C>, StoreError> {
        Ok(Tx(Some(expect_ready(OpenTransaction::begin(connection, &self.context))?)))
    }

    /// Inserts one event into the open transaction of this connection, begun with diesel's `connection.transaction(…)`
    /// for example. After the commit give the receipt to [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction it is refused. In a savepoint the receipt is only a wake-up.
    pub fn insert(&self, connection: &mut C, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event])
    }

    /// Inserts events, as [`insert`](Self::insert) does, in as few statements as possible.
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

/// A transaction whose [`commit`](Self::commit) proves which rows exist, commits and dispatches them. Dropped before it
/// ends, it is rolled back.
#[must_use = "dropped, the transaction is rolled back"]
// `None` only while it is being ended: `commit`, `rollback` and `drop` take it.
pub struct Tx<'c, C: OutboxConnection>(Option<OpenTransaction<'c, C>>);

impl<C: OutboxConnection + Connection> Tx<'_, C> {
    /// The connection, for everything that is not an event:
    /// `diesel::insert_into(orders).values(order).execute(tx.conn())?`.
    pub fn conn(&mut self) -> &mut C {
        self.open().connection()
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is returned like
    /// any other, and nothing is written.
    pub fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Writes events in as few statements as possible and returns their ids, without those that a hook suppressed.
    pub fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        expect_ready(self.open().write(events))
    }

    /// Runs `work` in a savepoint: what it wrote belongs to this transaction when it returns `Ok`, and is rolled back
    /// when it returns `Err` or panics. Savepoints may be nested.
    pub fn savepoint<T, E>(&mut self, work: impl FnOnce(&mut Tx<'_, C>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<WriteError>,
    {
        expect_ready(self.open().open_savepoint()).map_err(WriteError::from)?;
        let savepoint = Savepoint { tx: self, is_open: true };
        let result = work(savepoint.tx)?;
        savepoint.release().map_err(WriteError::from)?;
        Ok(result)
    }

    /// Commits, and hands the events to the engine.
    ///
    /// Events of a savepoint that was rolled back are not dispatched. A transaction that cannot be committed any more
    /// returns an error, although the COMMIT of PostgreSQL (after a failed statement) and of MySQL (after a deadlock)
    /// would return `Ok`.
    ///
    /// No proof is needed if the connection was used for nothing but writing events since the first event was written,
    /// and every one of these writes returned an id. Otherwise the proof costs a statement of its own, so write all
    /// events last.
    pub fn commit(mut self) -> Result<(), CommitError> {
        match self.0.take() {
            Some(open) => expect_ready(open.commit()),
            None => Ok(()),
        }
    }

    /// Rolls back: none of the events is stored.
    pub fn rollback(mut self) -> Result<(), StoreError> {
        match self.0.take() {
            Some(open) => expect_ready(open.rollback()),
            None => Ok(()),
        }
    }
}

impl<'c, C: OutboxConnection> Tx<'c, C> {
    fn open(&mut self) -> &mut OpenTransaction<'c, C> {
        self.0.as_mut().expect("only `commit`, `rollback` and `drop` take it, and they own it")
    }
}

impl<C: OutboxConnection> Drop for Tx<'_, C> {
    fn drop(&mut self) {
        // After an error the transaction manager of diesel marks the connection as broken, and pools close it.
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

/// A guard around a savepoint, which rolls it back unless it was released.
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
        // If the rollback fails, the proof before COMMIT fails too.
        if self.is_open {
            let _ = expect_ready(self.tx.open().roll_back_savepoint());
        }
    }
}
