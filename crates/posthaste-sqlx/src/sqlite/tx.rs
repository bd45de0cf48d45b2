//! A transaction, and savepoints in it, that tell the outbox how they ended.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::sqlite::{Statements, WrittenRows};
use sqlx::{Connection as _, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::connection::begin_immediate;
use super::write_queue::WritePermit;
use super::writer::{SqliteWriter, failed, write};
use crate::sql::ready;
use crate::transaction_depth::acquire;

/// A transaction on the service's own pool whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`SqliteConnection`], so `&mut *tx` is what sqlx takes. Dropped
/// unfinished, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct SqliteTx {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: Transaction<'static, Sqlite>,
    permit: WritePermit,
    ledger: Ledger,
    context: WriterContext<posthaste_sql_writer::Sqlite>,
}

impl SqliteWriter {
    /// Begins a transaction that holds the write lock from its start (`BEGIN IMMEDIATE`), so that
    /// nothing in it fails because somebody else is writing. A pool of another file than that of the outbox
    /// is refused.
    pub async fn begin(&self, pool: &SqlitePool) -> Result<SqliteTx, StoreError> {
        // The connection first: nobody waits for a pool while they hold the permit.
        let mut connection = acquire(pool).await.map_err(failed)?;
        self.expect_database_of(pool, &mut connection).await?;
        let permit = self.write_queue.acquire().await;
        let tx = begin_immediate(connection).await.map_err(failed)?;
        Ok(SqliteTx::new(tx, permit, self.context.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        pool: &SqlitePool,
        work: impl AsyncFnOnce(&mut SqliteTx) -> Result<T, E>,
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

impl SqliteTx {
    fn new(
        tx: Transaction<'static, Sqlite>,
        permit: WritePermit,
        context: WriterContext<posthaste_sql_writer::Sqlite>,
    ) -> Self {
        Self { tx, permit, ledger: Ledger::new(), context }
    }

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and answers their ids, those that a hook left out excepted.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows
        // which of them are still there.
        let (ids, receipt) = write(&self.context, &mut self.tx, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    pub async fn savepoint(&mut self) -> Result<SqliteSavepoint<'_>, StoreError> {
        SqliteSavepoint::open(&mut self.tx, &mut self.ledger, &self.context).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. When COMMIT fails the transaction is rolled back
    /// and nothing of it will be delivered.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        let written = WrittenRows::new(self.ledger.ids_by_seq());
        let present = match prove(self.context.statements(), &mut self.tx, &written).await {
            Ok(present) => present,
            Err(error) => {
                // The hooks hear of it when the ledger is dropped, after the rollback.
                let _ = self.tx.rollback().await;
                return Err(CommitError::RolledBack(failed(error)));
            }
        };
        let committing = std::mem::take(&mut self.ledger).committing();
        let answer = self.tx.commit().await.map_err(|error| explain(error, &present));
        self.permit.written();
        match answer {
            Ok(()) => {
                committing.committed(&present);
                Ok(())
            }
            Err(error @ CommitError::RolledBack(_)) => {
                committing.rolled_back();
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Rolls back: the events never were.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

/// Which of these rows the transaction still sees: a savepoint may have taken some back.
async fn prove(
    statements: &Statements,
    connection: &mut SqliteConnection,
    written: &WrittenRows,
) -> Result<HashSet<i64>, sqlx::Error> {
    if written.is_empty() {
        return Ok(HashSet::new());
    }
    let missing = ready::<Sqlite>(&statements.missing).bind(written.to_json()).fetch_all(connection).await?;
    let missing = missing.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    Ok(written.present(missing))
}

/// A COMMIT that SQLite refused is rolled back when its guard is dropped. Only where there was no
/// transaction left to commit, the rows themselves tell how it had ended.
fn explain(error: sqlx::Error, present: &HashSet<i64>) -> CommitError {
    let refused = error.as_database_error().map(|refused| refused.message().contains("no transaction"));
    match refused {
        Some(ended) if !ended || present.is_empty() => CommitError::RolledBack(failed(error)),
        _ => CommitError::Unknown(failed(error)),
    }
}

/// A savepoint in a [`SqliteTx`] or in another savepoint. Derefs to the [`SqliteConnection`]. Dropped
/// unfinished, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct SqliteSavepoint<'a> {
    // Dropped before the ledger, as in `SqliteTx`.
    tx: Transaction<'a, Sqlite>,
    parent: &'a mut Ledger,
    ledger: Ledger,
    context: &'a WriterContext<posthaste_sql_writer::Sqlite>,
}

impl<'a> SqliteSavepoint<'a> {
    async fn open(
        connection: &'a mut SqliteConnection,
        parent: &'a mut Ledger,
        context: &'a WriterContext<posthaste_sql_writer::Sqlite>,
    ) -> Result<Self, StoreError> {
        let tx = connection.begin().await.map_err(failed)?;
        Ok(Self { tx, parent, ledger: Ledger::new(), context })
    }

    /// Writes one event, as [`SqliteTx::write`] does.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`SqliteTx::write_all`] does.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let (ids, receipt) = write(self.context, &mut self.tx, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one.
    pub async fn savepoint(&mut self) -> Result<SqliteSavepoint<'_>, StoreError> {
        SqliteSavepoint::open(&mut self.tx, &mut self.ledger, self.context).await
    }

    /// Ends the savepoint; its events belong to what is around it now.
    pub async fn release(mut self) -> Result<(), StoreError> {
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

impl Deref for SqliteSavepoint<'_> {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for SqliteSavepoint<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}
