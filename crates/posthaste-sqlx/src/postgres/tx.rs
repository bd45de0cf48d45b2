//! A transaction, and savepoints in it, that tell the outbox how they ended.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::postgres::{Statements, proves_rollback};
use sqlx::{Connection as _, PgConnection, PgPool, Postgres, Row as _, SqlSafeStr as _, Transaction};

use super::connection::BEGIN;
use super::writer::{PgWriter, failed};
use crate::cancel_safety::run_to_completion;
use crate::sql::ready;
use crate::transaction_depth::{acquire, transaction_depth};

/// A transaction on the service's own pool whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`PgConnection`], so `&mut *tx` is what sqlx takes. Dropped unfinished, it
/// is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct PgTx {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: Transaction<'static, Postgres>,
    ledger: Ledger,
    /// Whether nobody used the connection since the first event was written, and the last one was written
    /// well: then the transaction is not aborted, and no savepoint took a row back.
    proven: bool,
    writer: PgWriter,
}

impl PgWriter {
    /// Begins a transaction. A caller that goes away while it begins leaves no open transaction in the
    /// pool, as `pool.begin()` of sqlx 0.9.0 does.
    pub async fn begin(&self, pool: &PgPool) -> Result<PgTx, StoreError> {
        let connection = acquire(pool).await.map_err(failed)?;
        let tx = run_to_completion(Transaction::begin(connection, Some(BEGIN.into_sql_str())));
        let tx = tx.await.map_err(failed)?;
        Ok(PgTx::new(tx, self.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        pool: &PgPool,
        work: impl AsyncFnOnce(&mut PgTx) -> Result<T, E>,
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

impl PgTx {
    fn new(tx: Transaction<'static, Postgres>, writer: PgWriter) -> Self {
        Self { tx, ledger: Ledger::new(), proven: false, writer }
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and answers their ids, those that a hook left out excepted.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        expect_depth(&self.tx, 1)?;
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows
        // which of them are still there.
        let nothing_between = self.proven || self.ledger.is_empty();
        self.proven = false;
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.proven = nothing_between && !ids.is_empty();
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    ///
    /// A caller that goes away before the answer has come rolls the whole transaction back: everything
    /// that is asked of it afterwards fails, and its connection must not be used for anything else.
    pub async fn savepoint(&mut self) -> Result<PgSavepoint<'_>, StoreError> {
        expect_depth(&self.tx, 1)?;
        self.proven = false;
        PgSavepoint::open(&mut self.tx, &mut self.ledger, &self.writer).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that a failed statement has aborted
    /// is rolled back and answers an error, although PostgreSQL's own COMMIT would answer `Ok`.
    ///
    /// An INSERT that has just succeeded proves both, so it costs nothing to write events last; after
    /// any other use of the connection the proof is a statement of its own.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        expect_depth(&self.tx, 1).map_err(CommitError::RolledBack)?;
        let written = self.ledger.seqs();
        let present = match self.proven {
            true => Ok(written.into_iter().collect()),
            false => prove(self.writer.context.statements(), &mut self.tx, written).await,
        };
        let present = match present {
            Ok(present) => present,
            Err(error) => {
                // The hooks hear of it when the ledger is dropped, after the rollback.
                let _ = self.tx.rollback().await;
                return Err(CommitError::RolledBack(failed(error)));
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
}

impl Deref for PgTx {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for PgTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.proven = false;
        &mut self.tx
    }
}

/// Refuses to go on where the driver has rolled back behind our back: it answers a SAVEPOINT whose caller
/// went away with a ROLLBACK of everything around it, and whatever came next would be committed by itself.
fn expect_depth(connection: &PgConnection, expected: usize) -> Result<(), StoreError> {
    match transaction_depth::<Postgres>(connection) >= expected {
        true => Ok(()),
        false => Err(StoreError::NoTransaction),
    }
}

/// Which of these rows the transaction still sees: a savepoint may have taken some back. In a
/// transaction that a failed statement has aborted, this fails too, so it is asked even if nothing was
/// written: the failed statement may have been the write.
async fn prove(
    statements: &Statements,
    connection: &mut PgConnection,
    written: Vec<i64>,
) -> Result<HashSet<i64>, sqlx::Error> {
    let query = ready::<Postgres>(&statements.present).persistent(statements.cacheable);
    let rows = query.bind(written).fetch_all(connection).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Whether the server itself said no, as it does when a deferred constraint is violated.
fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| proves_rollback(&code))
}

/// A savepoint in a [`PgTx`] or in another savepoint. Derefs to the [`PgConnection`]. Dropped
/// unfinished, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct PgSavepoint<'a> {
    // Dropped before the ledger, as in `PgTx`.
    tx: Transaction<'a, Postgres>,
    /// How many transactions and savepoints are open, this one included.
    depth: usize,
    parent: &'a mut Ledger,
    ledger: Ledger,
    writer: &'a PgWriter,
}

impl<'a> PgSavepoint<'a> {
    async fn open(
        connection: &'a mut PgConnection,
        parent: &'a mut Ledger,
        writer: &'a PgWriter,
    ) -> Result<Self, StoreError> {
        let tx = connection.begin().await.map_err(failed)?;
        Ok(Self { depth: transaction_depth::<Postgres>(&tx), tx, parent, ledger: Ledger::new(), writer })
    }

    /// Writes one event, as [`PgTx::write`] does.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`PgTx::write_all`] does.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        expect_depth(&self.tx, self.depth)?;
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one. See [`PgTx::savepoint`].
    pub async fn savepoint(&mut self) -> Result<PgSavepoint<'_>, StoreError> {
        expect_depth(&self.tx, self.depth)?;
        PgSavepoint::open(&mut self.tx, &mut self.ledger, self.writer).await
    }

    /// Ends the savepoint; its events belong to what is around it now.
    pub async fn release(mut self) -> Result<(), StoreError> {
        expect_depth(&self.tx, self.depth)?;
        let ledger = std::mem::take(&mut self.ledger);
        self.tx.commit().await.map_err(failed)?;
        self.parent.absorb(ledger);
        Ok(())
    }

    /// Undoes what was written in it.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }
}

impl Deref for PgSavepoint<'_> {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for PgSavepoint<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}
