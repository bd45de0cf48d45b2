//! The writer's door.

use super::MemoryStore;
use super::connection::MemoryConnection;
use super::tx::MemoryTx;
use crate::error::{CommitError, StoreError, WriteError};
use crate::event::{Event, EventId};
use crate::writer::{Receipt, Scope, WriterCore};

/// Writes events to a [`MemoryStore`]; made by [`MemoryStore::writer`], cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryWriter {
    store: MemoryStore,
    core: WriterCore,
}

impl MemoryWriter {
    pub(super) fn new(store: MemoryStore, core: WriterCore) -> Self {
        Self { store, core }
    }

    /// Opens a transaction on a connection of its own.
    pub async fn begin(&self) -> Result<MemoryTx, StoreError> {
        let mut connection = self.store.connect();
        connection.begin().await?;
        Ok(MemoryTx::new(connection, self.core.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers
    /// `Err`, panics or is dropped.
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

    /// Inserts one event into the transaction that is open on this connection. Give the receipt
    /// to [`Outbox::committed`](crate::Outbox::committed) after the commit.
    pub async fn insert(
        &self,
        connection: &mut MemoryConnection,
        event: Event,
    ) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all(
        &self,
        connection: &mut MemoryConnection,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        connection.expect(&self.store)?;
        let scope = match connection.depth() {
            0 => return Err(StoreError::NoTransaction.into()),
            1 => Scope::Transaction,
            _ => Scope::ForeignSavepoint,
        };
        let (_, receipt) = insert(&self.core, connection, events, scope).await?;
        Ok(receipt)
    }
}

/// Hooks, limits, INSERT. Answers the ids that stand for the events now, duplicates included.
pub(super) async fn insert(
    core: &WriterCore,
    connection: &mut MemoryConnection,
    events: Vec<Event>,
    scope: Scope,
) -> Result<(Vec<EventId>, Receipt), WriteError> {
    let prepared = core.prepare(events, scope)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    let seqs = if prepared.is_empty() { Vec::new() } else { connection.insert(prepared.rows()).await? };
    Ok((ids, prepared.written(&seqs)))
}
