//! The Writer for diesel-async, and the transaction that it opens.

use std::fmt;

use diesel_async::AsyncConnection;
use posthaste::{CommitError, Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{OutboxStore, WriterContext};

use crate::database::OutboxConnection;
use crate::open_transaction::{OpenTransaction, insert_into_own};

/// Writes events in transactions on connections of diesel-async's: see
/// [`AsyncPgWriter`](crate::AsyncPgWriter), [`AsyncMySqlWriter`](crate::AsyncMySqlWriter) and
/// [`AsyncSqliteWriter`](crate::AsyncSqliteWriter). Cheap to clone.
///
/// # When the caller goes away
///
/// A call that is dropped before its answer has come, by a timeout for example, leaves a connection on which
/// no transaction can begin any more, because nobody knows what is still open on it. The pools of diesel-async
/// throw it away, and the server rolls back; whoever holds such a connection without a pool has to do the
/// same. If COMMIT was on its way nobody knows its outcome, so neither `after_commit` nor `after_rollback`
/// runs, and the poller finds out.
pub struct AsyncWriter<C: OutboxConnection> {
    context: WriterContext<C::Database>,
}

impl<C: OutboxConnection + AsyncConnection> AsyncWriter<C> {
    /// A Writer for this outbox in a store of `posthaste-sqlx` for the same database.
    pub fn new(store: &impl OutboxStore<C::Database>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see
    /// [`WriterContext`].
    pub fn from_context(context: WriterContext<C::Database>) -> Self {
        Self { context }
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`, panics or
    /// is dropped. Refused where a transaction is open already; there is [`insert`](Self::insert) for that.
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
            Ok(answer) => {
                tx.commit().await?;
                Ok(answer)
            }
            Err(error) => {
                // Without an answer the connection is given up, and what went wrong first says more.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    /// Begins a transaction, for those who end it themselves. On SQLite it holds the write lock from its
    /// start (`BEGIN IMMEDIATE`).
    pub async fn begin<'c>(&self, connection: &'c mut C) -> Result<AsyncTx<'c, C>, StoreError> {
        Ok(AsyncTx(OpenTransaction::begin(connection, &self.context).await?))
    }

    /// Inserts one event into the transaction that is open on this connection, which diesel-async's
    /// `connection.transaction(…)` opened for example. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction it is refused. In a savepoint the receipt is only a wake-up.
    pub async fn insert(&self, connection: &mut C, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in as few statements as the database can.
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

/// A transaction whose [`commit`](Self::commit) proves, commits and dispatches. Dropped unfinished, its
/// connection is given up, and with it the server rolls back.
#[must_use = "dropped, the transaction is rolled back, and its connection is lost"]
pub struct AsyncTx<'c, C: OutboxConnection>(OpenTransaction<'c, C>);

impl<C: OutboxConnection + AsyncConnection> AsyncTx<'_, C> {
    /// The connection, for everything that is not an event:
    /// `diesel::insert_into(orders).values(order).execute(tx.conn()).await?`.
    pub fn conn(&mut self) -> &mut C {
        self.0.connection()
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in as few statements as the database can, and answers their ids, those that a hook left
    /// out excepted.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.0.write(events).await
    }

    /// Runs `work` in a savepoint: what it wrote belongs to this transaction when it answers `Ok`, and never
    /// was when it answers `Err`. Savepoints may be nested.
    ///
    /// If it panics or its caller goes away the savepoint cannot be rolled back alone: everything that is
    /// asked of the transaction afterwards is refused, and its commit rolls everything back.
    pub async fn savepoint<T, E>(
        &mut self,
        work: impl AsyncFnOnce(&mut AsyncTx<'_, C>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError>,
    {
        let mut savepoint = Savepoint { tx: self, is_answered: false };
        savepoint.tx.0.open_savepoint().await.map_err(WriteError::from)?;
        let ended = match work(savepoint.tx).await {
            Ok(answer) => savepoint.tx.0.release_savepoint().await.map(|()| Ok(answer)),
            Err(error) => {
                // If it fails the transaction is in a state that its proof does not pass.
                let _ = savepoint.tx.0.roll_back_savepoint().await;
                Ok(Err(error))
            }
        };
        savepoint.is_answered = true;
        ended.map_err(WriteError::from)?
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that cannot be committed any more answers
    /// an error, although COMMIT of PostgreSQL (after a failed statement) and of MySQL (after a deadlock)
    /// would answer `Ok`.
    ///
    /// An INSERT that has just succeeded proves that all is well, so it costs nothing to write events last;
    /// after any other use of the connection the proof is a statement of its own.
    pub async fn commit(self) -> Result<(), CommitError> {
        self.0.commit().await
    }

    /// Rolls back: the events never were.
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

/// A savepoint whose end was answered, or after which nothing more is done in its transaction.
struct Savepoint<'t, 'c, C: OutboxConnection> {
    tx: &'t mut AsyncTx<'c, C>,
    is_answered: bool,
}

impl<C: OutboxConnection> Drop for Savepoint<'_, '_, C> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.tx.0.give_up();
        }
    }
}
