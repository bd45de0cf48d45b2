//! The Writer on the service's own connections.

use posthaste::writer::Scope;
use posthaste::{Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{Database, OutboxStore, WriterContext};
use sea_orm::{ConnectionTrait, DatabaseTransaction};

use crate::database::{AnyWriterContext, failed};

/// Writes events in transactions of the service's own connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SeaWriter {
    pub(crate) context: AnyWriterContext,
}

impl SeaWriter {
    /// A Writer for this outbox in a store of `posthaste-sqlx`, whatever its database.
    pub fn new<D: Database>(store: &impl OutboxStore<D>, outbox: &Outbox) -> Self
    where
        WriterContext<D>: Into<AnyWriterContext>,
    {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see
    /// [`WriterContext::writer_only`].
    pub fn from_context(context: impl Into<AnyWriterContext>) -> Self {
        Self { context: context.into() }
    }

    /// Inserts one event into a transaction that the service began itself. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// A transaction that the database has ended by itself is refused.
    ///
    /// In a nested transaction, which is a savepoint, use [`insert_nested`](Self::insert_nested): this method cannot
    /// tell the two apart. If you use it in a savepoint that is rolled back, the savepoint's events are still not
    /// delivered, but an engine holds them for a second.
    pub async fn insert(&self, tx: &DatabaseTransaction, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(tx, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does.
    pub async fn insert_all(
        &self,
        tx: &DatabaseTransaction,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        self.insert_in(tx, events, Scope::Transaction).await
    }

    /// Inserts events into a nested transaction, a savepoint, that the service began itself. It may still be rolled
    /// back after this call, so the receipt is only a wake-up.
    pub async fn insert_nested(
        &self,
        tx: &DatabaseTransaction,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        self.insert_in(tx, events, Scope::ForeignSavepoint).await
    }

    async fn insert_in(
        &self,
        tx: &DatabaseTransaction,
        events: Vec<Event>,
        scope: Scope,
    ) -> Result<Receipt, WriteError> {
        self.context.expect(tx.get_database_backend())?;
        self.context.expect_database(tx).await?;
        // The type does not show whether the transaction is still open.
        if !self.context.is_open(tx).await.map_err(failed)? {
            return Err(StoreError::NoTransaction.into());
        }
        let (_, receipt) = write(&self.context, tx, events, scope).await?;
        Ok(receipt)
    }
}

/// Applies hooks and limits and runs the INSERT. Returns the ids of the events, duplicates included.
pub(crate) async fn write(
    context: &AnyWriterContext,
    tx: &DatabaseTransaction,
    events: Vec<Event>,
    scope: Scope,
) -> Result<(Vec<EventId>, Receipt), WriteError> {
    let prepared = context.core().prepare(events, scope)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    let seqs = context.insert(tx, prepared.rows()).await?;
    Ok((ids, prepared.written(&seqs)))
}
