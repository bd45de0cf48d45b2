//! Transactions and savepoints that hand their events to the outbox when they end.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, StoreError, WriteError};
use sea_orm::{
    DatabaseConnection, DatabaseTransaction, DbBackend, SqliteTransactionMode, TransactionOptions,
    TransactionTrait,
};

use crate::database::{AnyWriterContext, failed};
use crate::writer::{SeaWriter, write};

/// A transaction on the service's own connection whose [`commit`](Self::commit) proves which rows exist, commits and
/// dispatches them. Derefs to the [`DatabaseTransaction`], so `&*tx` is what SeaORM takes. Dropped before it ends, it
/// is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct SeaTx {
    // Declared before `ledger`, so that it is dropped first: the hooks must run after the rollback.
    tx: DatabaseTransaction,
    /// What was written so far. Locked only between statements, never across an `await`.
    ledger: Mutex<Ledger>,
    /// Whether the transaction needs a proof before COMMIT. Set when the caller borrows it, because the caller may end
    /// it, or may keep a nested transaction of SeaORM, which is a savepoint and can be rolled back at any time. Also
    /// set when a write failed or was dropped before its end, because the database may have ended the transaction.
    /// Never cleared.
    lent: AtomicBool,
    /// Held during a write, so that each write knows how the one before it ended. Taken before `ledger`.
    write_lock: tokio::sync::Mutex<()>,
    context: AnyWriterContext,
}

impl SeaWriter {
    /// Begins a transaction. Unlike with `db.begin()`, no transaction stays open in the pool if the caller is dropped
    /// before this returns. On SQLite the transaction holds the write lock from its start (`BEGIN IMMEDIATE`).
    ///
    /// A connection to another kind of database than that of the outbox is refused, and so is another SQLite file. On a
    /// server, the first write in another database is refused.
    pub async fn begin(&self, db: &DatabaseConnection) -> Result<SeaTx, StoreError> {
        self.context.expect(db.get_database_backend())?;
        let (db, options) = (db.clone(), options(db.get_database_backend()));
        // A task continues when its caller is dropped; its result is then dropped too, which rolls back.
        let begun = tokio::spawn(async move { db.begin_with_options(options).await }).await;
        let tx = begun.map_err(|error| StoreError::backend("SeaORM", error))?.map_err(failed)?;
        self.context.expect_database(&tx).await?;
        Ok(SeaTx::new(tx, self.context.clone()))
    }

    /// Runs `work` in a transaction: commits when it returns `Ok`, rolls back when it returns `Err`, panics or is
    /// dropped.
    pub async fn transaction<T, E>(
        &self,
        db: &DatabaseConnection,
        work: impl AsyncFnOnce(&SeaTx) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let tx = self.begin(db).await.map_err(WriteError::from)?;
        let result = work(&tx).await?;
        tx.commit().await?;
        Ok(result)
    }
}

impl SeaTx {
    fn new(tx: DatabaseTransaction, context: AnyWriterContext) -> Self {
        Self {
            tx,
            ledger: Mutex::default(),
            lent: AtomicBool::new(false),
            write_lock: tokio::sync::Mutex::new(()),
            context,
        }
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. An id that exists already is returned like
    /// any other, and nothing is written.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events and returns their ids, without those that a hook suppressed.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let _write = self.write_lock.lock().await;
        if self.is_lent() {
            self.context.expect_open(&self.tx).await?;
        }
        let write_guard = UnprovenWrite(&self.lent);
        // Rows may be born leased even inside a savepoint that an SQL text opened: the proof before COMMIT shows which
        // of these rows still exist.
        let (ids, receipt) = write(&self.context, &self.tx, events, Scope::Transaction).await?;
        write_guard.succeeded();
        self.ledger().record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint. Its events belong to this transaction when it is released, and are dropped when it is rolled
    /// back.
    pub async fn savepoint(&self) -> Result<SeaSavepoint<'_>, StoreError> {
        self.lend();
        SeaSavepoint::open(&self.tx, &self.ledger, &self.context).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// Events of a savepoint that was rolled back are not dispatched. A transaction that the database has aborted or
    /// ended by itself (after a failed statement on PostgreSQL, a deadlock on MySQL, a full disk on SQLite) returns an
    /// error, although the driver's own commit may return `Ok`. If such a transaction wrote no events, its outcome may
    /// be unknown: the error is then [`CommitError::Unknown`].
    ///
    /// This takes one statement before COMMIT, unless only the Writer has used the transaction.
    pub async fn commit(self) -> Result<(), CommitError> {
        let proof = self.prove().await;
        let Self { tx, ledger, context, .. } = self;
        let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        let present = match proof {
            Ok(present) => present,
            Err(error) => {
                let _ = tx.rollback().await;
                // The hooks run after the rollback.
                match error {
                    CommitError::RolledBack(_) => ledger.rolled_back(),
                    _ => drop(ledger.committing()),
                }
                return Err(error);
            }
        };
        let committing = ledger.committing();
        match tx.commit().await {
            Ok(()) => {
                committing.committed(&present);
                Ok(())
            }
            Err(error) if context.is_refusal(&error) => {
                committing.rolled_back();
                Err(CommitError::RolledBack(failed(error)))
            }
            Err(error) => Err(CommitError::Unknown(failed(error))),
        }
    }

    /// Rolls back: none of the events is stored.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }

    /// The rows that the transaction still sees; an error if it is no longer open.
    async fn prove(&self) -> Result<std::collections::HashSet<i64>, CommitError> {
        if !self.is_lent() {
            return Ok(self.ledger().seqs().into_iter().collect());
        }
        let written = std::mem::take(&mut *self.ledger());
        let present = self.context.present(&self.tx, &written).await;
        let nothing_written = written.seqs().is_empty();
        *self.ledger() = written;
        let present = present.map_err(|error| CommitError::RolledBack(failed(error)))?;
        if present.is_empty() {
            match self.context.is_open(&self.tx).await {
                Ok(true) => {}
                Ok(false) if nothing_written => return Err(CommitError::Unknown(StoreError::NoTransaction)),
                Ok(false) => return Err(CommitError::RolledBack(StoreError::NoTransaction)),
                Err(error) => return Err(CommitError::RolledBack(failed(error))),
            }
        }
        Ok(present)
    }

    fn is_lent(&self) -> bool {
        self.lent.load(Ordering::SeqCst)
    }

    fn lend(&self) {
        self.lent.store(true, Ordering::SeqCst);
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }
}

impl posthaste::writer::Tx for SeaTx {
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

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard around a write. Dropped before the write has succeeded, it marks the transaction as one that needs a proof.
struct UnprovenWrite<'a>(&'a AtomicBool);

impl UnprovenWrite<'_> {
    /// The write succeeded: the transaction needs no proof because of it.
    fn succeeded(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnprovenWrite<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Marks the transaction as one that needs a proof, because the caller may end it, or a savepoint in it.
impl Deref for SeaTx {
    type Target = DatabaseTransaction;
    fn deref(&self) -> &DatabaseTransaction {
        self.lend();
        &self.tx
    }
}

fn options(backend: DbBackend) -> TransactionOptions {
    let immediate = (backend == DbBackend::Sqlite).then_some(SqliteTransactionMode::Immediate);
    TransactionOptions { sqlite_transaction_mode: immediate, ..TransactionOptions::default() }
}

/// A savepoint in a [`SeaTx`] or in another savepoint. Derefs to the [`DatabaseTransaction`]. Dropped before it ends,
/// it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct SeaSavepoint<'a> {
    // Dropped before the ledger, as in `SeaTx`.
    tx: DatabaseTransaction,
    /// What was written in this savepoint; moves to `parent` when it is released.
    ledger: Mutex<Ledger>,
    parent: &'a Mutex<Ledger>,
    context: &'a AnyWriterContext,
}

impl<'a> SeaSavepoint<'a> {
    async fn open(
        around: &DatabaseTransaction,
        parent: &'a Mutex<Ledger>,
        context: &'a AnyWriterContext,
    ) -> Result<Self, StoreError> {
        let tx = around.begin().await.map_err(failed)?;
        Ok(Self { tx, ledger: Mutex::default(), parent, context })
    }

    /// Writes one event, as [`SeaTx::write`] does.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`SeaTx::write_all`] does.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.context.expect_open(&self.tx).await?;
        let (ids, receipt) = write(self.context, &self.tx, events, Scope::Transaction).await?;
        lock(&self.ledger).record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one.
    pub async fn savepoint(&self) -> Result<SeaSavepoint<'_>, StoreError> {
        SeaSavepoint::open(&self.tx, &self.ledger, self.context).await
    }

    /// Releases the savepoint: its events now belong to the transaction or savepoint around it.
    pub async fn release(self) -> Result<(), StoreError> {
        let Self { tx, ledger, parent, .. } = self;
        tx.commit().await.map_err(failed)?;
        lock(parent).absorb(ledger.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Rolls back everything written in this savepoint.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }
}

impl Deref for SeaSavepoint<'_> {
    type Target = DatabaseTransaction;
    fn deref(&self) -> &DatabaseTransaction {
        &self.tx
    }
}
