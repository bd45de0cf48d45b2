//! A transaction, and savepoints in it, that tell the outbox how they ended.

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

/// A transaction of the service's own connection whose [`commit`](Self::commit) proves, commits and
/// dispatches. Derefs to the [`DatabaseTransaction`], so `&*tx` is what SeaORM takes. Dropped unfinished, it
/// is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the transaction is rolled back"]
pub struct SeaTx {
    // Dropped before the ledger: the hooks run after the rollback, not before it.
    tx: DatabaseTransaction,
    ledger: Mutex<Ledger>,
    /// Whether somebody ever had it in hand, and may have ended it, or may still have a savepoint in it that
    /// takes events back: SeaORM's nested transactions can be kept, and rolled back at any time. Also if a
    /// write failed or was dropped half way: the database may have ended the transaction with it.
    lent: AtomicBool,
    /// One write at a time, so that each one knows how the one before it ended.
    write_lock: tokio::sync::Mutex<()>,
    context: AnyWriterContext,
}

impl SeaWriter {
    /// Begins a transaction. A caller that goes away while it begins leaves no open transaction in the
    /// pool, as `db.begin()` does. On SQLite it holds the write lock from its start.
    ///
    /// A connection to another kind of database than that of the outbox is refused, and so is another file of
    /// SQLite. In another database of a server it is the first write that is refused.
    pub async fn begin(&self, db: &DatabaseConnection) -> Result<SeaTx, StoreError> {
        self.context.expect(db.get_database_backend())?;
        let (db, options) = (db.clone(), options(db.get_database_backend()));
        // A task goes on when its caller drops it, and then rolls back.
        let begun = tokio::spawn(async move { db.begin_with_options(options).await }).await;
        let tx = begun.map_err(|error| StoreError::backend("SeaORM", error))?.map_err(failed)?;
        self.context.expect_database(&tx).await?;
        Ok(SeaTx::new(tx, self.context.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        db: &DatabaseConnection,
        work: impl AsyncFnOnce(&SeaTx) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let tx = self.begin(db).await.map_err(WriteError::from)?;
        let answer = work(&tx).await?;
        tx.commit().await?;
        Ok(answer)
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

    /// Writes one event and answers its id; none if a hook suppressed it. An id that exists already is
    /// answered like any other, and nothing is written.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events and answers their ids, those that a hook left out excepted.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let _write = self.write_lock.lock().await;
        if self.is_lent() {
            self.context.expect_open(&self.tx).await?;
        }
        let write_guard = UnprovenWrite(&self.lent);
        // Also inside a raw savepoint the rows may be born leased: the proof before COMMIT shows which of
        // them are still there.
        let (ids, receipt) = write(&self.context, &self.tx, events, Scope::Transaction).await?;
        write_guard.succeeded();
        self.ledger().record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint that hands its events up when it is released, and forgets them when not.
    pub async fn savepoint(&self) -> Result<SeaSavepoint<'_>, StoreError> {
        self.lend();
        SeaSavepoint::open(&self.tx, &self.ledger, &self.context).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// What a savepoint took back is not dispatched. A transaction that the database has ended by itself, after
    /// a failed statement on PostgreSQL, by a deadlock on MySQL or for a full disk on SQLite, answers an error,
    /// although the driver's own commit may answer `Ok`. If it wrote no events nobody may be able to tell how
    /// it ended, and the answer is [`CommitError::Unknown`].
    ///
    /// That is known by one statement before COMMIT, unless nobody but the Writer has used the transaction.
    pub async fn commit(self) -> Result<(), CommitError> {
        let proof = self.prove().await;
        let Self { tx, ledger, context, .. } = self;
        let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        let present = match proof {
            Ok(present) => present,
            Err(error) => {
                let _ = tx.rollback().await;
                // The hooks hear of it after the rollback.
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

    /// Rolls back: the events never were.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed)
    }

    /// Which of the rows written are still there, in a transaction that still is one.
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

/// A write that has begun. Left before its end is known, it leaves its transaction to be proven.
struct UnprovenWrite<'a>(&'a AtomicBool);

impl UnprovenWrite<'_> {
    /// The write went well.
    fn succeeded(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnprovenWrite<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Whoever uses the transaction may end it, or a savepoint in it.
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

/// A savepoint in a [`SeaTx`] or in another savepoint. Derefs to the [`DatabaseTransaction`]. Dropped
/// unfinished, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct SeaSavepoint<'a> {
    // Dropped before the ledger, as in `SeaTx`.
    tx: DatabaseTransaction,
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

    /// Ends the savepoint; its events belong to what is around it now.
    pub async fn release(self) -> Result<(), StoreError> {
        let Self { tx, ledger, parent, .. } = self;
        tx.commit().await.map_err(failed)?;
        lock(parent).absorb(ledger.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Undoes what was written in it.
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
