//! The Writer of the memory store.

use super::MemoryStore;
use super::connection::MemoryConnection;
use crate::error::{StoreError, WriteError};
use crate::event::{Event, EventId};
use crate::outbox::Outbox;
use crate::writer::{Receipt, Scope, WriterCore};

/// Writes events to a [`MemoryStore`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryWriter {
    pub(super) store: MemoryStore,
    pub(super) core: WriterCore,
}

impl MemoryWriter {
    /// A Writer for this outbox, with its hooks, limits and hot path.
    pub fn new(store: &MemoryStore, outbox: &Outbox) -> Self {
        Self { store: store.clone(), core: outbox.writer_core() }
    }

    /// Inserts one event into the open transaction of this connection. After the commit, pass the receipt to
    /// [`Outbox::committed`](crate::Outbox::committed).
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

/// Runs hooks and limits, then the INSERT. Returns the ids of the events, duplicates included.
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
