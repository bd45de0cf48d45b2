//! A transaction, and savepoints in it, that tell the outbox how they ended.

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

/// A transaction on the service's own connection whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`Transaction`] of the driver. Dropped unfinished, it is rolled back.
#[must_use = "dropped, the transaction is rolled back"]
pub struct PgTx<'c> {
    // Dropped before what was written: the hooks run after the rollback, not before it.
    tx: Transaction<'c>,
    written: Mutex<TxLedger>,
    session: WriterSession,
}

impl PgWriter {
    /// Begins a transaction. A caller that goes away while it begins leaves no open transaction behind.
    pub async fn begin<'c, C: PgConnection>(&self, connection: &'c mut C) -> Result<PgTx<'c>, StoreError> {
        let (client, cache) = connection.parts();
        let session = WriterSession::new(&self.context, cache);
        insert::warm_up(&session, client).await.map_err(failed)?;
        let tx = client.transaction().await.map_err(failed)?;
        Ok(PgTx::new(tx, session))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
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
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    }
}

impl<'c> PgTx<'c> {
    fn new(tx: Transaction<'c>, session: WriterSession) -> Self {
        Self { tx, written: Mutex::default(), session }
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    ///
    /// Joined with the service's own statement, both travel in one round trip:
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

    /// Writes events in one statement and answers their ids, those that a hook left out excepted.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        write(&self.session, &self.tx, events, &self.written).await
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    pub async fn savepoint(&mut self) -> Result<PgSavepoint<'_>, StoreError> {
        let tx = self.tx.transaction().await.map_err(failed)?;
        Ok(PgSavepoint::new(tx, &self.written, &self.session))
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that a failed statement has aborted
    /// is rolled back and answers an error, although PostgreSQL's own COMMIT would answer `Ok`. The proof
    /// of both travels with the COMMIT.
    pub async fn commit(self) -> Result<(), CommitError> {
        let Self { tx, written, session } = self;
        let (ledger, certain) = unlock(written).into_parts();
        match certain {
            Some(present) => commit_certain(tx, ledger, &present).await,
            None => commit_proven(tx, ledger, &session).await,
        }
    }

    /// Rolls back: the events never were.
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

/// Commits rows that no savepoint can have taken back.
async fn commit_certain(
    tx: Transaction<'_>,
    ledger: Ledger,
    present: &HashSet<i64>,
) -> Result<(), CommitError> {
    // An aborted transaction refuses a savepoint, and then the COMMIT behind it is not looked at. Of all
    // that it refuses this is the cheapest: an empty SELECT takes three times as long.
    const COMMIT_UNLESS_ABORTED: &str = "SAVEPOINT posthaste; COMMIT";
    let committing = ledger.committing();
    let answer = tx.batch_execute(COMMIT_UNLESS_ABORTED).await;
    if answer.is_ok() {
        forget(tx);
    } else {
        // Sends a ROLLBACK, before the hooks hear of it.
        drop(tx);
    }
    conclude(committing, answer.map(|()| present))
}

/// Commits rows of which a savepoint may have taken some back: in the same round trip, the transaction says
/// which of them it still sees.
async fn commit_proven(
    tx: Transaction<'_>,
    ledger: Ledger,
    session: &WriterSession,
) -> Result<(), CommitError> {
    let types = [Type::INT8_ARRAY];
    let present = match session.ready(tx.client(), &session.statements().present, &types).await {
        Ok(present) => present,
        Err(error) => {
            // The hooks hear of it after the rollback.
            drop(tx);
            ledger.rolled_back();
            return Err(CommitError::RolledBack(failed(error)));
        }
    };
    let written = ledger.seqs();
    let committing = ledger.committing();
    let values: [&(dyn ToSql + Sync); 1] = [&written];
    let (present, answer) = pipelined(present.rows(&tx, &values, &types), tx.batch_execute("COMMIT")).await;
    forget(tx);
    let present = present.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect());
    match (present, answer) {
        (Ok(present), answer) => conclude(committing, answer.map(|()| &present)),
        // The server answers in order: before a proof that it refused, nothing was committed, and the COMMIT
        // behind it rolled back.
        (Err(error), _) => conclude(committing, Err(error)),
    }
}

/// The transaction has ended, and the driver, which does not know, would send a ROLLBACK after it. Nothing
/// in it holds memory of its own.
fn forget(tx: Transaction<'_>) {
    std::mem::forget(tx);
}

/// Says what became of the COMMIT.
fn conclude(committing: Committing, answer: Result<&HashSet<i64>, Error>) -> Result<(), CommitError> {
    match answer {
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

/// Whether the server itself said no, as it does when a deferred constraint is violated.
fn is_refusal(error: &Error) -> bool {
    error.code().is_some_and(|state| proves_rollback(state.code()))
}

/// A savepoint in a [`PgTx`] or in another savepoint. Derefs to the [`Transaction`] of the driver. Dropped
/// unfinished, it is rolled back.
#[must_use = "dropped, the savepoint is rolled back"]
pub struct PgSavepoint<'a> {
    // Dropped first, as in `PgTx`.
    tx: Transaction<'a>,
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

    /// Ends the savepoint; its events belong to what is around it now.
    pub async fn release(self) -> Result<(), StoreError> {
        // Before the answer: a caller that goes away meanwhile has released it all the same. Where it
        // fails, the transaction around it is aborted, and its commit will say so.
        lock(self.parent).absorb(unlock(self.written));
        self.tx.commit().await.map_err(failed)
    }

    /// Undoes what was written in it.
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
