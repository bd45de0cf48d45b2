//! Transactions and savepoints that hand their events to the outbox when they end.

use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use posthaste::writer::{Committing, Ledger};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::postgres::proves_rollback;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Transaction};

use crate::PgConnection;
use crate::insert;
use crate::pipeline::pipelined;
use crate::tx_ledger::{TxLedger, lock, unlock};
use crate::writer::{PgWriter, write};
use crate::writer_session::{WriterSession, failed};

/// A transaction on the service's own connection whose [`commit`](Self::commit) proves which rows exist, commits and
/// dispatches them. Derefs to the [`Transaction`] of the driver. Dropped before it ends, it is rolled back.
#[must_use = "dropped, the transaction is rolled back"]
pub struct PgTx<'c> {
    // Declared before `written`, so that it is dropped first: the hooks must run after the rollback.
    tx: Transaction<'c>,
    /// What was written so far. Locked only between statements, never across an `await`.
    written: Mutex<TxLedger>,
    session: WriterSession,
}

impl PgWriter {
    /// Begins a transaction. If the caller is dropped before this returns, no transaction stays open.
    pub async fn begin<'c, C: PgConnection>(&self, connection: &'c mut C) -> Result<PgTx<'c>, StoreError> {
        let (client, cache) = connection.parts();
        let session = WriterSession::new(&self.context, cache);
        insert::warm_up(&session, client).await.map_err(failed)?;
        let tx = client.transaction().await.map_err(failed)?;
        Ok(PgTx::new(tx, session))
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err`, panics or is
    /// dropped.
    ///
    /// ```no_run
    /// # use posthaste::{BoxError, Event};
    /// # use posthaste_tokio_postgres::{PgTx, PgWriter};
    /// # async fn run(writer: PgWriter, mut client: tokio_postgres::Client) -> Result<(), BoxError> {
    /// writer.transaction(&mut client, async |tx: &mut PgTx<'_>| {
    ///     tx.execute("INSERT INTO orders (id) VALUES (17)", &[]).await?;
    ///     tx.write(Event::json("OrderPlaced", &17)?).await?;
    ///     Ok::<_, BoxError>(())
    /// })
    /// .await
    /// # }
    /// ```
    pub async fn transaction<C: PgConnection, T, E>(
        &self,
        connection: &mut C,
        work: impl AsyncFnOnce(&mut PgTx<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(connection).await.map_err(WriteError::from)?;
        let result = work(&mut tx).await?;
        tx.commit().await?;
        Ok(result)
    }
}

impl<'c> PgTx<'c> {
    fn new(tx: Transaction<'c>, session: WriterSession) -> Self {
        Self { tx, written: Mutex::default(), session }
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is returned like
    /// any other, and nothing is written.
    ///
    /// Joined with a statement of the service, both are sent in one round trip:
    ///
    /// ```no_run
    /// # use posthaste::{BoxError, Event};
    /// # use posthaste_tokio_postgres::PgTx;
    /// # async fn run(tx: PgTx<'_>, insert: tokio_postgres::Statement, event: Event) -> Result<(), BoxError> {
    /// let (order, event) = tokio::join!(tx.execute(&insert, &[&17_i64]), tx.write(event));
    /// order?;
    /// event?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and returns their ids, without those that a hook suppressed.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        write(&self.session, &self.tx, events, &self.written).await
    }

    /// Opens a savepoint. Its events belong to this transaction when it is released, and are dropped when it is rolled
    /// back.
    pub async fn savepoint(&mut self) -> Result<PgSavepoint<'_>, StoreError> {
        let tx = self.tx.transaction().await.map_err(failed)?;
        Ok(PgSavepoint::new(tx, &self.written, &self.session))
    }

    /// Commits, and hands the events to the engine.
    ///
    /// Events of a savepoint that was rolled back are not dispatched. A transaction that a failed statement has aborted
    /// is rolled back and returns an error, although PostgreSQL's own COMMIT would return `Ok`. The check for these two
    /// cases is pipelined with the COMMIT.
    pub async fn commit(self) -> Result<(), CommitError> {
        let Self { tx, written, session } = self;
        let (ledger, certain) = unlock(written).into_parts();
        match certain {
            Some(present) => commit_certain(tx, ledger, &present).await,
            None => commit_proven(tx, ledger, &session).await,
        }
    }

    /// Rolls back: none of the events is stored.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }
}

impl posthaste::writer::Tx for PgTx<'_> {
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

impl<'c> Deref for PgTx<'c> {
    type Target = Transaction<'c>;
    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl DerefMut for PgTx<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl fmt::Debug for PgTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTx").field("written", &self.written).finish_non_exhaustive()
    }
}

/// Commits rows that no savepoint can have rolled back.
async fn commit_certain(
    tx: Transaction<'_>,
    ledger: Ledger,
    present: &HashSet<i64>,
) -> Result<(), CommitError> {
    // An aborted transaction refuses a savepoint, and the server then skips the COMMIT that follows in the same text.
    // Of all statements that it refuses, this is the cheapest: an empty SELECT takes three times as long.
    const COMMIT_UNLESS_ABORTED: &str = "SAVEPOINT posthaste; COMMIT";
    let committing = ledger.committing();
    let result = tx.batch_execute(COMMIT_UNLESS_ABORTED).await;
    if result.is_ok() {
        forget(tx);
    } else {
        // Sends a ROLLBACK before the hooks run.
        drop(tx);
    }
    conclude(committing, result.map(|()| present))
}

/// Commits rows some of which a savepoint may have rolled back. The same round trip returns those that the transaction
/// still sees.
async fn commit_proven(
    tx: Transaction<'_>,
    ledger: Ledger,
    session: &WriterSession,
) -> Result<(), CommitError> {
    let types = [Type::INT8_ARRAY];
    let present = match session.ready(tx.client(), &session.statements().present, &types).await {
        Ok(present) => present,
        Err(error) => {
            // The hooks run after the rollback.
            drop(tx);
            ledger.rolled_back();
            return Err(CommitError::RolledBack(failed(error)));
        }
    };
    let written = ledger.seqs();
    let committing = ledger.committing();
    let values: [&(dyn ToSql + Sync); 1] = [&written];
    let (present, result) = pipelined(present.rows(&tx, &values, &types), tx.batch_execute("COMMIT")).await;
    forget(tx);
    let present = present.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect());
    match (present, result) {
        (Ok(present), result) => conclude(committing, result.map(|()| &present)),
        // The server replies in order. If it refused the proof, the transaction was aborted, and the COMMIT that
        // followed rolled it back.
        (Err(error), _) => conclude(committing, Err(error)),
    }
}

/// Forgets a transaction that has ended. The driver does not know that, and would send a ROLLBACK when the transaction
/// is dropped. A `Transaction` owns no memory, so nothing leaks.
fn forget(tx: Transaction<'_>) {
    std::mem::forget(tx);
}

/// Reports the result of the COMMIT to the hooks, the engine and the caller.
fn conclude(committing: Committing, result: Result<&HashSet<i64>, Error>) -> Result<(), CommitError> {
    match result {
        Ok(present) => {
            committing.committed(present);
            Ok(())
        }
        Err(error) if is_refusal(&error) => {
            committing.rolled_back();
            Err(CommitError::RolledBack(failed(error)))
        }
        Err(error) => Err(CommitError::Unknown(failed(error))),
    }
}

/// Whether the server itself refused the COMMIT, as it does when a deferred constraint is violated.
fn is_refusal(error: &Error) -> bool {
    error.code().is_some_and(|state| proves_rollback(state.code()))
}

/// A savepoint in a [`PgTx`] or in another savepoint. Derefs to the [`Transaction`] of the driver. Dropped before it
/// ends, it is rolled back.
#[must_use = "dropped, the savepoint is rolled back"]
pub struct PgSavepoint<'a> {
    // Dropped first, as in `PgTx`.
    tx: Transaction<'a>,
    /// What was written in this savepoint; moves to `parent` when it is released.
    written: Mutex<TxLedger>,
    parent: &'a Mutex<TxLedger>,
    session: &'a WriterSession,
}

impl<'a> PgSavepoint<'a> {
    fn new(tx: Transaction<'a>, parent: &'a Mutex<TxLedger>, session: &'a WriterSession) -> Self {
        Self { tx, written: Mutex::default(), parent, session }
    }

    /// Writes one event, as [`PgTx::write`] does.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`PgTx::write_all`] does.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        write(self.session, &self.tx, events, &self.written).await
    }

    /// Opens a savepoint inside this one.
    pub async fn savepoint(&mut self) -> Result<PgSavepoint<'_>, StoreError> {
        let tx = self.tx.transaction().await.map_err(failed)?;
        Ok(PgSavepoint::new(tx, &self.written, self.session))
    }

    /// Releases the savepoint: its events now belong to the transaction or savepoint around it.
    pub async fn release(self) -> Result<(), StoreError> {
        // Absorbed before the reply arrives, because RELEASE takes effect even if the caller is dropped in the
        // meantime. If RELEASE fails, the transaction is aborted, and its commit returns an error.
        lock(self.parent).absorb(unlock(self.written));
        self.tx.commit().await.map_err(failed)
    }

    /// Rolls back everything written in this savepoint.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }
}

impl<'a> Deref for PgSavepoint<'a> {
    type Target = Transaction<'a>;
    fn deref(&self) -> &Transaction<'a> {
        &self.tx
    }
}

impl DerefMut for PgSavepoint<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl fmt::Debug for PgSavepoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgSavepoint").field("written", &self.written).finish_non_exhaustive()
    }
}
