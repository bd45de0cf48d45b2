//! Transactions that hand their events to the outbox when they end.

mod open_tx;
mod savepoint;

use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;
use sqlx::{Database, Pool};

use crate::transaction_depth::{acquire, transaction_depth};
use crate::writer::{Writer, WriterDialect, failed};
use open_tx::OpenTx;

pub use savepoint::Savepoint;

/// The operations of a transaction that differ from database to database.
pub(crate) trait TxDialect: WriterDialect {
    /// The statement that begins a transaction.
    const BEGIN: &'static str;

    /// Whether a connection cannot be used again after a statement was dropped before its end, because the driver may
    /// take the reply to that statement for the reply to the next one.
    const SPOILED_BY_DROP: bool = false;

    /// What a transaction holds besides its connection: on SQLite its turn in the write queue.
    type Permit: fmt::Debug + Send + Sync;

    /// Waits for the permit, and refuses a pool of another database where the INSERT does not.
    fn acquire_permit(
        writer: &Writer<Self>,
        pool: &Pool<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Self::Permit, StoreError>> + Send;

    /// Called when COMMIT has returned, successful or not.
    fn written(_permit: &mut Self::Permit) {}

    /// The proof before COMMIT: the rows of the ledger that the transaction still sees, since a savepoint may have
    /// rolled some back. Called even if the ledger is empty, because the write may be the statement that failed.
    /// `touched` is [`Tx::touched`].
    fn prove(
        context: &WriterContext<Self::Outbox>,
        connection: &mut Self::Connection,
        ledger: &Ledger,
        touched: bool,
    ) -> impl Future<Output = Result<HashSet<i64>, CommitError>> + Send;

    /// Explains the error of a COMMIT. `present` are the rows that the proof found.
    fn commit_error(error: sqlx::Error, present: &HashSet<i64>) -> CommitError;
}

/// A transaction on the service's own pool whose [`commit`](Self::commit) proves which rows exist, commits and
/// dispatches them. Derefs to the driver's connection, so `&mut *tx` is what sqlx takes. Dropped before it ends, it is
/// rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct Tx<D: TxDialect> {
    // Declared before `ledger`, so that it is dropped first: the hooks must run after the rollback.
    tx: OpenTx<D>,
    ledger: Ledger,
    /// Whether no proof is needed before COMMIT: the caller has not used the connection since the first event was
    /// written, and the last write succeeded. The transaction is then still open, and no savepoint rolled a row back.
    proven: bool,
    /// Whether the caller or the server may have ended the transaction since it was last known to be open. The next
    /// write then checks first that it is open.
    touched: bool,
    writer: Writer<D>,
}

impl<D: TxDialect> Writer<D> {
    /// Begins a transaction. If the caller is dropped before this returns, no transaction stays open in the pool. With
    /// `pool.begin()` of sqlx 0.9.0, one does.
    ///
    /// On SQLite the transaction holds the write lock from its start (`BEGIN IMMEDIATE`), so that no statement in it
    /// fails because another connection is writing. A pool of another file than that of the outbox is refused.
    pub async fn begin(&self, pool: &Pool<D>) -> Result<Tx<D>, StoreError> {
        // Takes the connection first, so that no caller holds a permit while it waits for the pool.
        let mut connection = acquire(pool).await.map_err(failed::<D>)?;
        let permit = D::acquire_permit(self, pool, &mut connection).await?;
        let tx = OpenTx::begin(connection, permit).await.map_err(failed::<D>)?;
        Ok(Tx { tx, ledger: Ledger::new(), proven: false, touched: false, writer: self.clone() })
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        pool: &Pool<D>,
        work: impl AsyncFnOnce(&mut Tx<D>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(pool).await.map_err(WriteError::from)?;
        let result = work(&mut tx).await?;
        tx.commit().await?;
        Ok(result)
    }
}

impl<D: TxDialect> Tx<D> {
    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is
    /// returned like any other, and nothing is written.
    ///
    /// On MySQL, a caller that is dropped before this returns rolls the whole transaction back: every later call on it
    /// fails, and its connection must not be used for anything else.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and returns their ids, without those that a hook suppressed.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_usable()?;
        self.tx.interrupted = D::SPOILED_BY_DROP;
        let written = self.write_whole(events).await;
        self.tx.interrupted = false;
        written
    }

    async fn write_whole(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Rows may be born leased inside a savepoint opened by an SQL text too: the proof before COMMIT shows which of
        // them still exist.
        let nothing_between = self.proven || self.ledger.is_empty();
        self.proven = false;
        // The INSERT itself may end the transaction too, by a deadlock for example.
        let touched = std::mem::replace(&mut self.touched, true);
        if touched {
            D::expect_transaction(&self.writer.context, &mut self.tx).await?;
        }
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.proven = nothing_between && !ids.is_empty();
        self.touched = touched && ids.is_empty();
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint. Its events belong to this transaction when it is released, and are dropped when it is rolled
    /// back.
    ///
    /// A caller that is dropped before this returns rolls the whole transaction back: every later call on it fails, and
    /// its connection must not be used for anything else.
    pub async fn savepoint(&mut self) -> Result<Savepoint<'_, D>, StoreError> {
        self.expect_usable()?;
        self.proven = false;
        self.touched = true;
        let OpenTx { connection, interrupted, .. } = &mut self.tx;
        Savepoint::<D>::open(connection, interrupted, &mut self.ledger, &self.writer).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// Events of a savepoint that was rolled back are not dispatched. A transaction that a failed statement has aborted
    /// or a deadlock has ended returns an error, although the server's own COMMIT would return `Ok`. If MySQL has ended
    /// a transaction that wrote no events, the outcome is unknown: a deadlock may have rolled it back, or a statement
    /// such as CREATE TABLE may have committed it.
    ///
    /// No proof is needed if the connection was used for nothing but writing events since the first event was written,
    /// and every one of these writes returned an id. Otherwise the proof costs a statement of its own, so write all
    /// events last.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        self.expect_usable().map_err(CommitError::RolledBack)?;
        self.tx.interrupted = D::SPOILED_BY_DROP;
        let proof = self.prove().await;
        self.tx.interrupted = false;
        let present = match proof {
            Ok(present) => present,
            Err(error) => {
                // The hooks run when the ledger is dropped, after the rollback.
                let _ = self.tx.rollback().await;
                return Err(error);
            }
        };
        let committing = std::mem::take(&mut self.ledger).committing();
        let committed = self.tx.commit().await.map_err(|error| D::commit_error(error, &present));
        match &committed {
            Ok(()) => committing.committed(&present),
            Err(CommitError::RolledBack(_)) => committing.rolled_back(),
            Err(_) => {}
        }
        committed
    }

    /// Rolls back: none of the events is stored.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed::<D>)
    }

    fn expect_usable(&self) -> Result<(), StoreError> {
        expect_usable::<D>(&self.tx, self.tx.interrupted, 1)
    }

    async fn prove(&mut self) -> Result<HashSet<i64>, CommitError> {
        if self.proven || self.ledger.is_empty() && !self.touched {
            return Ok(self.ledger.seqs().into_iter().collect());
        }
        D::prove(&self.writer.context, &mut self.tx, &self.ledger, self.touched).await
    }
}

impl<D: TxDialect> posthaste::writer::Tx for Tx<D> {
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

impl<D: TxDialect> Deref for Tx<D> {
    type Target = D::Connection;
    fn deref(&self) -> &D::Connection {
        &self.tx
    }
}

impl<D: TxDialect> DerefMut for Tx<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        self.proven = false;
        self.touched = true;
        &mut self.tx
    }
}

/// Fails if a statement was interrupted, or if the driver has rolled back by itself. When the caller of a SAVEPOINT is
/// dropped, the driver rolls back the whole transaction, and every later statement would be committed by itself.
pub(crate) fn expect_usable<D: Database>(
    connection: &D::Connection,
    interrupted: bool,
    expected_depth: usize,
) -> Result<(), StoreError> {
    match !interrupted && transaction_depth::<D>(connection) >= expected_depth {
        true => Ok(()),
        false => Err(StoreError::NoTransaction),
    }
}
