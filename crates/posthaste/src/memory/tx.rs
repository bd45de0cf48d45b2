//! Transactions and savepoints of the memory store, which report their end to the outbox.

use std::ops::{Deref, DerefMut};

use super::connection::{MemoryConnection, failure};
use super::writer::{MemoryWriter, insert};
use crate::error::{CommitError, StoreError, WriteError};
use crate::event::{Event, EventId};
use crate::writer::{Ledger, Scope, Tx, WriterCore};

/// A transaction whose [`commit`](Self::commit) proves, commits and dispatches. Derefs to the [`MemoryConnection`]. A
/// transaction that is dropped unfinished is rolled back.
#[derive(Debug)]
#[must_use = "if it is dropped, the transaction is rolled back"]
pub struct MemoryTx {
    // Dropped before the ledger, because the hooks run after the rollback.
    connection: MemoryConnection,
    ledger: Ledger,
    core: WriterCore,
}

impl MemoryWriter {
    /// Opens a transaction on a new connection.
    pub async fn begin(&self) -> Result<MemoryTx, StoreError> {
        let mut connection = self.store.connect();
        connection.begin().await?;
        Ok(MemoryTx::new(connection, self.core.clone()))
    }

    /// Runs `work` in a transaction: commits if it returns `Ok`, rolls back if it returns `Err`, panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut MemoryTx) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin().await.map_err(WriteError::from)?;
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    }
}

impl MemoryTx {
    fn new(connection: MemoryConnection, core: WriterCore) -> Self {
        Self { connection, ledger: Ledger::new(), core }
    }

    /// Writes one event and returns its id; `None` if a hook suppressed it. If the id exists already, it is returned
    /// and nothing is written.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events in one statement and returns their ids, without those that a hook removed.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        // The rows may be born leased even inside a raw savepoint: the proof before COMMIT shows which of them still
        // exist.
        let (ids, receipt) = insert(&self.core, &mut self.connection, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint. Its events belong to this transaction once it is released.
    pub async fn savepoint(&mut self) -> Result<MemorySavepoint<'_>, StoreError> {
        MemorySavepoint::open(&mut self.connection, &mut self.ledger, &self.core).await
    }

    /// Commits, and hands the events to the engine.
    ///
    /// A transaction that a failed statement has aborted is rolled back, and the error says so. If the reply is lost,
    /// nothing is dispatched and no hook runs; the poller finds the rows if they were committed.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        let ledger = std::mem::take(&mut self.ledger);
        if self.connection.is_aborted() {
            // The transaction is open, so this cannot fail.
            let _ = self.connection.rollback().await;
            ledger.rolled_back();
            return Err(CommitError::RolledBack(failure("a failed statement had aborted the transaction")));
        }
        let committing = ledger.committing();
        match self.connection.commit_and_prove() {
            Ok(present) => committing.committed(&present),
            Err(error @ CommitError::RolledBack(_)) => {
                committing.rolled_back();
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Rolls back: none of the events is stored.
    pub async fn rollback(mut self) -> Result<(), StoreError> {
        self.connection.rollback().await
    }
}

impl Tx for MemoryTx {
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

impl Deref for MemoryTx {
    type Target = MemoryConnection;
    fn deref(&self) -> &MemoryConnection {
        &self.connection
    }
}

impl DerefMut for MemoryTx {
    fn deref_mut(&mut self) -> &mut MemoryConnection {
        &mut self.connection
    }
}

/// A savepoint in a [`MemoryTx`] or in another savepoint. Derefs to the [`MemoryConnection`]. A savepoint that is
/// dropped unfinished is rolled back.
#[derive(Debug)]
#[must_use = "if it is dropped, the savepoint is rolled back"]
pub struct MemorySavepoint<'a> {
    connection: &'a mut MemoryConnection,
    parent: &'a mut Ledger,
    core: &'a WriterCore,
    ledger: Ledger,
    /// The depth outside this savepoint, to which a rollback returns.
    outer_depth: usize,
}

impl<'a> MemorySavepoint<'a> {
    async fn open(
        connection: &'a mut MemoryConnection,
        parent: &'a mut Ledger,
        core: &'a WriterCore,
    ) -> Result<Self, StoreError> {
        let outer_depth = connection.depth();
        connection.savepoint().await?;
        Ok(Self { connection, parent, core, ledger: Ledger::new(), outer_depth })
    }

    /// Writes one event, as [`MemoryTx::write`] does.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`MemoryTx::write_all`] does.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let (ids, receipt) = insert(self.core, self.connection, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one.
    pub async fn savepoint(&mut self) -> Result<MemorySavepoint<'_>, StoreError> {
        MemorySavepoint::open(self.connection, &mut self.ledger, self.core).await
    }

    /// Ends the savepoint. Its events belong to the transaction or savepoint around it now.
    pub async fn release(mut self) -> Result<(), StoreError> {
        while self.connection.depth() > self.outer_depth {
            self.connection.release_savepoint().await?;
        }
        self.parent.absorb(std::mem::take(&mut self.ledger));
        Ok(())
    }

    /// Rolls back to the savepoint.
    pub async fn rollback(self) -> Result<(), StoreError> {
        // Dropping it rolls it back.
        Ok(())
    }
}

impl Drop for MemorySavepoint<'_> {
    fn drop(&mut self) {
        self.connection.undo_to_depth(self.outer_depth);
        std::mem::take(&mut self.ledger).rolled_back();
    }
}

impl Deref for MemorySavepoint<'_> {
    type Target = MemoryConnection;
    fn deref(&self) -> &MemoryConnection {
        self.connection
    }
}

impl DerefMut for MemorySavepoint<'_> {
    fn deref_mut(&mut self) -> &mut MemoryConnection {
        self.connection
    }
}
