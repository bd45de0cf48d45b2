//! A transaction, and savepoints in it, that tell the outbox how they ended.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::mysql::{Statements, proves_rollback};
use sqlx::{Connection as _, MySql, MySqlConnection, MySqlPool, Row as _, Transaction};

use super::connection::number;
use super::open_tx::OpenTx;
use super::value::{MAX_KEYS, bind_all};
use super::writer::{MySqlWriter, failed, is_in_transaction};
use crate::sql::ready;
use crate::transaction_depth::{acquire, transaction_depth};

/// A transaction on the service's own pool whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`MySqlConnection`], so `&mut *tx` is what sqlx takes. Dropped unfinished, it
/// is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct MySqlTx {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: OpenTx,
    ledger: Ledger,
    /// Whether nobody used the connection since the first event was written, and the last one was written
    /// well: then the transaction is still open, and no savepoint took a row back.
    proven: bool,
    /// Whether somebody else may have ended the transaction since it was last known to be open.
    touched: bool,
    writer: MySqlWriter,
}

impl MySqlWriter {
    /// Begins a transaction. A caller that goes away while it begins leaves no open transaction in the
    /// pool, as `pool.begin()` of sqlx 0.9.0 does.
    pub async fn begin(&self, pool: &MySqlPool) -> Result<MySqlTx, StoreError> {
        let connection = acquire(pool).await.map_err(failed)?;
        let tx = OpenTx::begin(connection).await.map_err(failed)?;
        Ok(MySqlTx::new(tx, self.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        pool: &MySqlPool,
        work: impl AsyncFnOnce(&mut MySqlTx) -> Result<T, E>,
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

impl MySqlTx {
    fn new(tx: OpenTx, writer: MySqlWriter) -> Self {
        Self { tx, ledger: Ledger::new(), proven: false, touched: false, writer }
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    ///
    /// A caller that goes away before the answer has come rolls the whole transaction back: everything
    /// that is asked of it afterwards fails, and its connection must not be used for anything else.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and answers their ids, those that a hook left out excepted.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_usable()?;
        self.tx.interrupted = true;
        let written = self.write_whole(events).await;
        self.tx.interrupted = false;
        written
    }

    async fn write_whole(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows
        // which of them are still there.
        let nothing_between = self.proven || self.ledger.is_empty();
        self.proven = false;
        // A deadlock may hit our own INSERT as well.
        let touched = std::mem::replace(&mut self.touched, true);
        if touched {
            self.writer.expect_transaction(&mut self.tx).await?;
        }
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.proven = nothing_between && !ids.is_empty();
        self.touched = touched && ids.is_empty();
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    ///
    /// A caller that goes away before the answer has come rolls the whole transaction back: everything
    /// that is asked of it afterwards fails, and its connection must not be used for anything else.
    pub async fn savepoint(&mut self) -> Result<MySqlSavepoint<'_>, StoreError> {
        self.expect_usable()?;
        self.proven = false;
        self.touched = true;
        let OpenTx { connection, interrupted } = &mut self.tx;
        MySqlSavepoint::open(connection, interrupted, &mut self.ledger, &self.writer).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that a deadlock has ended answers an
    /// error, although the server's own COMMIT would answer `Ok`. If it wrote no events, nobody knows
    /// whether a deadlock took it back or a statement such as CREATE TABLE committed it.
    ///
    /// An INSERT that has just succeeded proves that all is well, so it costs nothing to write events
    /// last; after any other use of the connection the proof is a statement of its own.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        self.expect_usable().map_err(CommitError::RolledBack)?;
        self.tx.interrupted = true;
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
        match self.tx.commit().await {
            Ok(()) => {
                committing.committed(&present);
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                committing.rolled_back();
                Err(CommitError::RolledBack(failed(error)))
            }
            Err(error) => Err(CommitError::Unknown(failed(error))),
        }
    }

    /// Rolls back: the events never were.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }

    fn expect_usable(&self) -> Result<(), StoreError> {
        expect_usable(&self.tx, self.tx.interrupted, 1)
    }

    /// Which of the rows written the transaction still sees: a savepoint may have taken some back, and a
    /// deadlock all of them.
    async fn prove(&mut self) -> Result<HashSet<i64>, CommitError> {
        let rolled_back = |error| CommitError::RolledBack(failed(error));
        let written = self.ledger.seqs();
        if self.proven || written.is_empty() && !self.touched {
            return Ok(written.into_iter().collect());
        }
        let present =
            present(self.writer.context.statements(), &mut self.tx, &written).await.map_err(rolled_back)?;
        let in_doubt = present.is_empty() && self.touched;
        if in_doubt && !is_in_transaction(&mut self.tx).await.map_err(rolled_back)? {
            return Err(match written.is_empty() {
                true => CommitError::Unknown(StoreError::NoTransaction),
                false => CommitError::RolledBack(StoreError::NoTransaction),
            });
        }
        Ok(present)
    }
}

impl Deref for MySqlTx {
    type Target = MySqlConnection;
    fn deref(&self) -> &MySqlConnection {
        &self.tx
    }
}

impl DerefMut for MySqlTx {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        self.proven = false;
        self.touched = true;
        &mut self.tx
    }
}

/// Refuses to go on where a statement was interrupted, and where the driver has rolled back behind our back:
/// it answers a SAVEPOINT whose caller went away with a ROLLBACK of everything around it, and whatever came
/// next would be committed by itself.
fn expect_usable(
    connection: &MySqlConnection,
    interrupted: bool,
    expected_depth: usize,
) -> Result<(), StoreError> {
    match !interrupted && transaction_depth::<MySql>(connection) >= expected_depth {
        true => Ok(()),
        false => Err(StoreError::NoTransaction),
    }
}

async fn present(
    statements: &Statements,
    connection: &mut MySqlConnection,
    written: &[i64],
) -> Result<HashSet<i64>, sqlx::Error> {
    let mut present = HashSet::with_capacity(written.len());
    for seqs in written.chunks(MAX_KEYS) {
        let query = bind_all(ready(&statements.present(seqs.len()).into()), seqs);
        for row in &query.fetch_all(&mut *connection).await? {
            present.insert(row.try_get(0)?);
        }
    }
    Ok(present)
}

/// Whether the server itself said no, as a cluster does when another node has won.
fn is_refusal(error: &sqlx::Error) -> bool {
    number(error).is_some_and(proves_rollback)
}

/// A savepoint in a [`MySqlTx`] or in another savepoint. Derefs to the [`MySqlConnection`]. Dropped
/// unfinished, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct MySqlSavepoint<'a> {
    // Dropped before the ledger, as in `MySqlTx`.
    tx: Transaction<'a, MySql>,
    /// Of the transaction around it.
    interrupted: &'a mut bool,
    /// How many transactions and savepoints are open, this one included.
    depth: usize,
    parent: &'a mut Ledger,
    ledger: Ledger,
    writer: &'a MySqlWriter,
}

impl<'a> MySqlSavepoint<'a> {
    async fn open(
        connection: &'a mut MySqlConnection,
        interrupted: &'a mut bool,
        parent: &'a mut Ledger,
        writer: &'a MySqlWriter,
    ) -> Result<Self, StoreError> {
        let tx = connection.begin().await.map_err(failed)?;
        Ok(Self {
            depth: transaction_depth::<MySql>(&tx),
            tx,
            interrupted,
            parent,
            ledger: Ledger::new(),
            writer,
        })
    }

    /// Writes one event, as [`MySqlTx::write`] does.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`MySqlTx::write_all`] does.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_usable()?;
        *self.interrupted = true;
        let written = self.write_whole(events).await;
        *self.interrupted = false;
        written
    }

    async fn write_whole(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.writer.expect_transaction(&mut self.tx).await?;
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one. See [`MySqlTx::savepoint`].
    pub async fn savepoint(&mut self) -> Result<MySqlSavepoint<'_>, StoreError> {
        self.expect_usable()?;
        MySqlSavepoint::open(&mut self.tx, self.interrupted, &mut self.ledger, self.writer).await
    }

    /// Ends the savepoint; its events belong to what is around it now.
    pub async fn release(mut self) -> Result<(), StoreError> {
        self.expect_usable()?;
        let ledger = std::mem::take(&mut self.ledger);
        self.tx.commit().await.map_err(failed)?;
        self.parent.absorb(ledger);
        Ok(())
    }

    /// Undoes what was written in it.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }

    fn expect_usable(&self) -> Result<(), StoreError> {
        expect_usable(&self.tx, *self.interrupted, self.depth)
    }
}

impl Deref for MySqlSavepoint<'_> {
    type Target = MySqlConnection;
    fn deref(&self) -> &MySqlConnection {
        &self.tx
    }
}

impl DerefMut for MySqlSavepoint<'_> {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.tx
    }
}
