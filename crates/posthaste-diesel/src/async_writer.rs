//! The Writer for diesel-async, and the transactions that it begins.

use std::fmt;

use diesel_async::AsyncConnection;
use posthaste::{CommitError, Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{OutboxStore, WriterContext};

use crate::database::OutboxConnection;
use crate::open_transaction::{OpenTransaction, insert_into_own};

/// Writes events in transactions on connections of diesel-async: see [`AsyncPgWriter`](crate::AsyncPgWriter),
/// [`AsyncMySqlWriter`](crate::AsyncMySqlWriter) and [`AsyncSqliteWriter`](crate::AsyncSqliteWriter). Cheap to clone.
///
/// # Cancellation
///
/// A call that is dropped before it returns, by a timeout for example, leaves a connection with an unknown state. No
/// transaction can begin on it any more. The pools of diesel-async close such a connection, and the server rolls back;
/// a service without a pool must close it too. If the dropped call had sent COMMIT, its outcome is unknown: neither
/// `after_commit` nor `after_rollback` runs, and the poller finds the rows.
pub struct AsyncWriter<C: OutboxConnection> {
    context: WriterContext<C::Database>,
}

impl<C: OutboxConnection + AsyncConnection> AsyncWriter<C> {
    /// A Writer for this outbox in a store of `posthaste-sqlx` for the same database.
    pub fn new(store: &impl OutboxStore<C::Database>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see `WriterContext::writer_only`.
    pub fn from_context(context: WriterContext<C::Database>) -> Self {
        Self { context }
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err`, panics or is
    /// dropped. Refused if a transaction is open already; use [`insert`](Self::insert) there.
    pub async fn transaction<T, E>(
        &self,
        connection: &mut C,
        work: impl AsyncFnOnce(&mut AsyncTx<'_, C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(connection).await.map_err(WriteError::from)?;
        match work(&mut tx).await {
            Ok(result) => {
                tx.commit().await?;
                Ok(result)
            }
            Err(error) => {
                // If the rollback fails, the connection is closed, and the first error says more to the caller.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    /// Begins a transaction, which the caller ends. On SQLite it holds the write lock from its start (`BEGIN
    /// IMMEDIATE`).
    pub async fn begin<'c>(&self, connection: &'c mut C) -> Result<AsyncTx<'c, C>, StoreError> {
        Ok(AsyncTx(OpenTransaction::begin(connection, &self.context).await?))
    }

    /// Inserts one event into the open transaction of this connection, begun with diesel-async's
    /// `connection.transaction(…)` for example. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction it is refused. In a savepoint the receipt is only a wake-up.
    pub async fn insert(&self, connection: &mut C, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in as few statements as possible.
    pub async fn insert_all(&self, connection: &mut C, events: Vec<Event>) -> Result<Receipt, WriteError> {
        insert_into_own(connection, &self.context, events).await
    }
}

impl<C: OutboxConnection> Clone for AsyncWriter<C> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone() }
    }
}

impl<C: OutboxConnection> fmt::Debug for AsyncWriter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncWriter").field("context", &self.context).finish()
    }
}

/// A transaction whose [`commit`](Self::commit) proves which rows exist, commits and dispatches them. Dropped before it
/// ends, its connection is closed, and the server rolls back.
#[must_use = "dropped, the transaction is rolled back, and its connection is lost"]
pub struct AsyncTx<'c, C: OutboxConnection>(OpenTransaction<'c, C>);

impl<C: OutboxConnection + AsyncConnection> AsyncTx<'_, C> {
    /// The connection, for everything that is not an event:
    /// `diesel::insert_into(orders).values(order).execute(tx.conn()).await?`.
    pub fn conn(&mut self) -> &mut C {
        self.0.connection()
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is returned like
    /// any other, and nothing is written.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in as few statements as possible and returns their ids, without those that a hook suppressed.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.0.write(events).await
    }

    /// Runs `work` in a savepoint: what it wrote belongs to this transaction when it returns `Ok`, and is rolled back
    /// when it returns `Err`. Savepoints may be nested.
    ///
    /// If `work` panics or this call is dropped, the savepoint cannot be rolled back alone: every later call on the
    /// transaction is refused, and its commit rolls everything back.
    pub async fn savepoint<T, E>(
        &mut self,
        work: impl AsyncFnOnce(&mut AsyncTx<'_, C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError>,
    {
        let mut savepoint = Savepoint { tx: self, has_ended: false };
        savepoint.tx.0.open_savepoint().await.map_err(WriteError::from)?;
        let ended = match work(savepoint.tx).await {
            Ok(result) => savepoint.tx.0.release_savepoint().await.map(|()| Ok(result)),
            Err(error) => {
                // If the rollback fails, the proof before COMMIT fails too.
                let _ = savepoint.tx.0.roll_back_savepoint().await;
                Ok(Err(error))
            }
        };
        savepoint.has_ended = true;
        ended.map_err(WriteError::from)?
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
    pub async fn commit(self) -> Result<(), CommitError> {
        self.0.commit().await
    }

    /// Rolls back: none of the events is stored.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.0.rollback().await
    }
}

impl<C: OutboxConnection + AsyncConnection> posthaste::writer::Tx for AsyncTx<'_, C> {
    async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        Self::write_all(self, events).await
    }

    async fn commit(self) -> Result<(), CommitError> {
        Self::commit(self).await
    }

    async fn rollback(self) -> Result<(), StoreError> {
        Self::rollback(self).await
    }
}

impl<C: OutboxConnection> fmt::Debug for AsyncTx<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTx").finish_non_exhaustive()
    }
}

/// A guard around a savepoint. Dropped before the savepoint has ended, it closes the transaction for all later calls.
struct Savepoint<'t, 'c, C: OutboxConnection> {
    tx: &'t mut AsyncTx<'c, C>,
    /// Whether the call that ends the savepoint has returned.
    has_ended: bool,
}

impl<C: OutboxConnection> Drop for Savepoint<'_, '_, C> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tx.0.give_up();
        }
    }
}
