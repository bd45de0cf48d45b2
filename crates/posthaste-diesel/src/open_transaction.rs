//! An open transaction: the rows that it wrote, and the proof of them before COMMIT. Shared by diesel and diesel-async.

use std::collections::HashSet;

use diesel::result::Error;
use posthaste::writer::{Ledger, Scope};
use posthaste::{CommitError, Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;

use crate::database::{Dialect, OutboxConnection};

/// An open transaction on a connection. Dropped before it ends, it marks the connection as broken; when that is closed,
/// the server rolls back.
pub(crate) struct OpenTransaction<'c, C: OutboxConnection> {
    connection: &'c mut C,
    context: WriterContext<C::Database>,
    /// What was written in the innermost savepoint, or in the transaction if no savepoint is open.
    ledger: Ledger,
    /// The ledgers around the innermost savepoint, that of the transaction first. The length of this list is the number
    /// of open savepoints.
    around: Vec<Ledger>,
    /// Whether no proof is needed before COMMIT: the caller has not borrowed the connection since the first event was
    /// written, and the last write succeeded. No savepoint can then have rolled a row back.
    is_proven: bool,
    /// Whether the transaction may have ended since it was last known to be open: the caller has borrowed the
    /// connection, or a write failed. The next write then checks first that it is open.
    is_doubtful: bool,
    /// Whether COMMIT or ROLLBACK has returned with a known outcome.
    is_over: bool,
}

impl<'c, C: OutboxConnection> OpenTransaction<'c, C> {
    pub(crate) async fn begin(
        connection: &'c mut C,
        context: &WriterContext<C::Database>,
    ) -> Result<Self, StoreError> {
        if !connection.is_free() {
            let is_open = connection.depth().is_ok_and(|depth| depth > 0);
            let error = if is_open { Error::AlreadyInTransaction } else { Error::BrokenTransactionManager };
            return Err(C::Database::failed(error));
        }
        C::Database::expect_database(connection, context.statements()).await?;
        connection.begin(C::Database::BEGIN).await.map_err(C::Database::failed)?;
        Ok(Self {
            connection,
            context: context.clone(),
            ledger: Ledger::new(),
            around: Vec::new(),
            is_proven: false,
            is_doubtful: false,
            is_over: false,
        })
    }

    /// The connection. After the caller has used it, a proof is needed before COMMIT.
    pub(crate) fn connection(&mut self) -> &mut C {
        self.is_proven = false;
        self.is_doubtful = true;
        self.connection
    }

    pub(crate) async fn write(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_open()?;
        // Rows may be born leased even inside a savepoint that an SQL text opened: the proof before COMMIT shows which
        // of these rows still exist.
        let nothing_between = self.is_proven || self.has_written_nothing();
        let was_doubtful = std::mem::replace(&mut self.is_doubtful, true);
        self.is_proven = false;
        if was_doubtful {
            expect_transaction(self.connection, &self.context).await?;
        }
        let (ids, receipt) = insert(self.connection, &self.context, events, Scope::Transaction).await?;
        self.is_proven = nothing_between && !ids.is_empty();
        self.is_doubtful = was_doubtful && ids.is_empty();
        self.ledger.record(receipt);
        Ok(ids)
    }

    pub(crate) async fn open_savepoint(&mut self) -> Result<(), StoreError> {
        self.expect_open()?;
        self.connection().savepoint().await.map_err(C::Database::failed)?;
        self.around.push(std::mem::take(&mut self.ledger));
        Ok(())
    }

    /// Releases the innermost savepoint: its events now belong to the transaction or savepoint around it.
    pub(crate) async fn release_savepoint(&mut self) -> Result<(), StoreError> {
        self.expect_open()?;
        let released = self.connection().commit().await.map_err(C::Database::failed);
        let inner = self.leave_savepoint();
        if released.is_ok() {
            self.ledger.absorb(inner);
        }
        released
    }

    /// Rolls the innermost savepoint back, with its events.
    pub(crate) async fn roll_back_savepoint(&mut self) -> Result<(), StoreError> {
        let rolled_back = self.connection().rollback().await.map_err(C::Database::failed);
        self.leave_savepoint().rolled_back();
        rolled_back
    }

    /// Makes every later call on this transaction fail. Used when a call was dropped while a savepoint was open,
    /// because the state of the transaction is unknown then.
    pub(crate) fn give_up(&mut self) {
        self.connection.give_up();
    }

    pub(crate) async fn commit(mut self) -> Result<(), CommitError> {
        match self.prove().await {
            Ok(present) => self.commit_with(present).await,
            Err(error) => {
                // The hooks run when the ledger is dropped, after the rollback.
                let _ = self.roll_back().await;
                Err(error)
            }
        }
    }

    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        self.roll_back().await.map_err(C::Database::failed)
    }

    async fn prove(&mut self) -> Result<HashSet<i64>, CommitError> {
        self.expect_open().map_err(CommitError::RolledBack)?;
        match self.is_proven {
            true => Ok(self.ledger.seqs().into_iter().collect()),
            false => C::Database::prove(self.connection, self.context.statements(), &self.ledger).await,
        }
    }

    async fn commit_with(&mut self, present: HashSet<i64>) -> Result<(), CommitError> {
        let committing = std::mem::take(&mut self.ledger).committing();
        let Err(error) = self.connection.commit().await else {
            self.is_over = true;
            committing.committed(&present);
            return Ok(());
        };
        let error = C::Database::explain(self.connection, error, &present).await;
        if matches!(error, CommitError::RolledBack(_)) {
            self.is_over = true;
            committing.rolled_back();
        }
        Err(error)
    }

    /// Rolls back. Diesel counts no transactions on a connection that is marked as broken, but one may still be open on
    /// it.
    async fn roll_back(&mut self) -> Result<(), Error> {
        let Ok(depth) = self.connection.depth() else {
            return self.connection.execute_text("ROLLBACK").await;
        };
        for _ in 0..depth {
            self.connection.rollback().await?;
        }
        self.is_over = true;
        Ok(())
    }

    fn leave_savepoint(&mut self) -> Ledger {
        let around = self.around.pop().unwrap_or_default();
        std::mem::replace(&mut self.ledger, around)
    }

    fn has_written_nothing(&self) -> bool {
        self.ledger.is_empty() && self.around.iter().all(Ledger::is_empty)
    }

    /// Fails if the transaction has ended according to diesel, or if its state is unknown.
    fn expect_open(&mut self) -> Result<(), StoreError> {
        match self.connection.depth() {
            Ok(depth) if depth as usize > self.around.len() => Ok(()),
            _ => Err(StoreError::NoTransaction),
        }
    }
}

impl<C: OutboxConnection> Drop for OpenTransaction<'_, C> {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.give_up();
        }
        // From the innermost savepoint outwards, in the order in which savepoints end.
        std::mem::take(&mut self.ledger).rolled_back();
        self.around.drain(..).rev().for_each(Ledger::rolled_back);
    }
}

/// Inserts events into a transaction that the service began itself.
pub(crate) async fn insert_into_own<C: OutboxConnection>(
    connection: &mut C,
    context: &WriterContext<C::Database>,
    events: Vec<Event>,
) -> Result<Receipt, WriteError> {
    C::Database::expect_database(connection, context.statements()).await?;
    expect_transaction(connection, context).await?;
    let scope = match connection.depth().map_err(C::Database::failed)? {
        // Diesel counts only transactions that it began itself; 0 means that an SQL text began this one.
        0 | 1 => Scope::Transaction,
        _ => Scope::ForeignSavepoint,
    };
    let (_, receipt) = insert(connection, context, events, scope).await?;
    Ok(receipt)
}

async fn expect_transaction<C: OutboxConnection>(
    connection: &mut C,
    context: &WriterContext<C::Database>,
) -> Result<(), StoreError> {
    match C::Database::is_safe(connection, context.statements()).await.map_err(C::Database::failed)? {
        true => Ok(()),
        false => Err(StoreError::NoTransaction),
    }
}

/// Applies hooks and limits and runs the INSERT. Returns the ids of the events, duplicates included.
async fn insert<C: OutboxConnection>(
    connection: &mut C,
    context: &WriterContext<C::Database>,
    events: Vec<Event>,
    scope: Scope,
) -> Result<(Vec<EventId>, Receipt), WriteError> {
    let prepared = context.core().prepare(events, scope)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    match C::Database::insert(connection, context.statements(), prepared.rows()).await {
        Ok(seqs) => Ok((ids, prepared.written(&seqs))),
        Err(error) => Err(C::Database::refused(connection, context.statements(), error).await.into()),
    }
}
