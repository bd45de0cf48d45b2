//! A transaction that tells the outbox how it ended.

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

/// How one database begins a transaction, and how it proves and ends it.
pub(crate) trait TxDialect: WriterDialect {
    const BEGIN: &'static str;

    /// Whether a statement that was dropped before it ended leaves a connection that cannot be used again: the
    /// driver may take the result of that statement for the result of the next one.
    const SPOILED_BY_DROP: bool = false;

    /// What a transaction holds beside its connection.
    type Permit: fmt::Debug + Send + Sync;

    /// Takes the permit, and refuses a pool of another database where no INSERT does.
    fn acquire_permit(
        writer: &Writer<Self>,
        pool: &Pool<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Self::Permit, StoreError>> + Send;

    /// The transaction has ended.
    fn written(_permit: &mut Self::Permit) {}

    /// Which of the rows written the transaction still sees: a savepoint may have taken some back. Asked also if
    /// nothing was written, because the write may be what failed. `touched`: see [`Tx`].
    fn prove(
        context: &WriterContext<Self::Outbox>,
        connection: &mut Self::Connection,
        ledger: &Ledger,
        touched: bool,
    ) -> impl Future<Output = Result<HashSet<i64>, CommitError>> + Send;

    /// What an error of COMMIT means for these rows.
    fn commit_error(error: sqlx::Error, present: &HashSet<i64>) -> CommitError;
}

/// A transaction on the service's own pool whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the driver's connection, so `&mut *tx` is what sqlx takes. Dropped unfinished, it
/// is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct Tx<D: TxDialect> {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: OpenTx<D>,
    ledger: Ledger,
    /// Whether the caller has not used the connection since the first event was written, and the last one was
    /// written well: then the transaction is still open, and no savepoint took a row back.
    proven: bool,
    /// Whether the caller or the server may have ended the transaction since it was last known to be open.
    touched: bool,
    writer: Writer<D>,
}

impl<D: TxDialect> Writer<D> {
    /// Begins a transaction. A caller that is dropped while it begins leaves no open transaction in the
    /// pool, as `pool.begin()` of sqlx 0.9.0 does.
    ///
    /// On SQLite it holds the write lock from its start (`BEGIN IMMEDIATE`), so that nothing in it fails because
    /// another connection is writing, and a pool of another file than that of the outbox is refused.
    pub async fn begin(&self, pool: &Pool<D>) -> Result<Tx<D>, StoreError> {
        // The connection first: no caller waits for a pool while it holds a permit.
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
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    }
}

impl<D: TxDialect> Tx<D> {
    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is
    /// returned like any other, and nothing is written.
    ///
    /// On MySQL, a caller that is dropped before this returns rolls the whole transaction back: everything
    /// that is asked of it afterwards fails, and its connection must not be used for anything else.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and returns their ids, those that a hook left out excepted.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_usable()?;
        self.tx.interrupted = D::SPOILED_BY_DROP;
        let written = self.write_whole(events).await;
        self.tx.interrupted = false;
        written
    }

    async fn write_whole(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows
        // which of them are still there.
        let nothing_between = self.proven || self.ledger.is_empty();
        self.proven = false;
        // Our own INSERT may end the transaction as well, by a deadlock for example.
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

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    ///
    /// A caller that is dropped before this returns rolls the whole transaction back: everything
    /// that is asked of it afterwards fails, and its connection must not be used for anything else.
    pub async fn savepoint(&mut self) -> Result<Savepoint<'_, D>, StoreError> {
        self.expect_usable()?;
        self.proven = false;
        self.touched = true;
        let OpenTx { connection, interrupted, .. } = &mut self.tx;
        Savepoint::<D>::open(connection, interrupted, &mut self.ledger, &self.writer).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that a failed statement has aborted or a deadlock
    /// has ended returns an error, although the server's own COMMIT would return `Ok`. If MySQL ended one that wrote
    /// no events, it is not known whether a deadlock took it back or a statement such as CREATE TABLE committed it.
    ///
    /// An INSERT that has just succeeded proves that all is well, so it costs nothing to write events
    /// last; after any other use of the connection the proof is a statement of its own.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        self.expect_usable().map_err(CommitError::RolledBack)?;
        self.tx.interrupted = D::SPOILED_BY_DROP;
        let proof = self.prove().await;
        self.tx.interrupted = false;
        let present = match proof {
            Ok(present) => present,
            Err(error) => {
                // The hooks hear of it when the ledger is dropped, after the rollback.
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

    /// Rolls back: the events never were.
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

/// Refuses to go on where a statement was interrupted, and where the driver has rolled back on its own:
/// when the caller of a SAVEPOINT was dropped, it rolls back everything around it, and whatever came
/// next would be committed by itself.
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
