//! The Writer on the service's own pool.

use std::fmt;

use posthaste::writer::{NewRow, Scope};
use posthaste::{Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;
use sqlx::Database;

use crate::transaction_depth::transaction_depth;

/// The operations of a Writer that differ from database to database.
pub(crate) trait WriterDialect: Database {
    /// The marker type of this database, which Writers of all drivers share.
    type Outbox: posthaste_sql_writer::Database + fmt::Debug;

    /// The state of a Writer besides its context.
    type WriterState: Clone + fmt::Debug + Send + Sync;

    /// Refuses a connection to another database than that of the outbox, where the INSERT itself does not.
    fn expect_database(
        _context: &WriterContext<Self::Outbox>,
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Refuses a connection without an open transaction, where the INSERT itself does not.
    fn expect_transaction(
        context: &WriterContext<Self::Outbox>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Inserts rows into the open transaction of this connection; returns their `seq`s, `None` where the id existed
    /// already.
    fn insert(
        statements: &Statements<Self>,
        connection: &mut Self::Connection,
        rows: &[NewRow],
    ) -> impl Future<Output = sqlx::Result<Vec<Option<i64>>>> + Send;

    /// Explains the error of an INSERT.
    fn refused(
        _context: &WriterContext<Self::Outbox>,
        _connection: &mut Self::Connection,
        error: sqlx::Error,
    ) -> impl Future<Output = StoreError> + Send {
        async { failed::<Self>(error) }
    }
}

/// The statements of Writers in a database.
pub(crate) type Statements<D> = <<D as WriterDialect>::Outbox as posthaste_sql_writer::Database>::Statements;

/// Writes events in transactions of the service's own pool. Cheap to clone.
#[derive(Debug)]
pub struct Writer<D: WriterDialect> {
    pub(crate) context: WriterContext<D::Outbox>,
    pub(crate) state: D::WriterState,
}

impl<D: WriterDialect> Writer<D> {
    /// Inserts one event into the open transaction of this connection. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// It is refused outside a transaction and in another database or file than that of the outbox. In a savepoint the
    /// receipt is only a wake-up.
    ///
    /// On MySQL, a connection of sqlx 0.9.0 cannot be used again after any statement on it was dropped before its end.
    /// A caller that may be dropped must call `close_on_drop()` on its connection first, or use [`begin`](Self::begin).
    pub async fn insert(&self, connection: &mut D::Connection, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all(
        &self,
        connection: &mut D::Connection,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        D::expect_database(&self.context, connection).await?;
        D::expect_transaction(&self.context, connection).await?;
        // The driver counts only transactions that it began itself; 0 is one begun by an SQL text.
        let scope = match transaction_depth::<D>(connection) {
            0 | 1 => Scope::Transaction,
            _ => Scope::ForeignSavepoint,
        };
        let (_, receipt) = self.write(connection, events, scope).await?;
        Ok(receipt)
    }

    /// Applies hooks and limits and runs the INSERT. Returns the ids of the events, duplicates included.
    pub(crate) async fn write(
        &self,
        connection: &mut D::Connection,
        events: Vec<Event>,
        scope: Scope,
    ) -> Result<(Vec<EventId>, Receipt), WriteError> {
        let prepared = self.context.core().prepare(events, scope)?;
        let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
        match D::insert(self.context.statements(), connection, prepared.rows()).await {
            Ok(seqs) => Ok((ids, prepared.written(&seqs))),
            Err(error) => Err(D::refused(&self.context, connection, error).await.into()),
        }
    }
}

impl<D: WriterDialect> Clone for Writer<D> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), state: self.state.clone() }
    }
}

/// The pool belongs to the service, so its errors are passed on unchanged.
pub(crate) fn failed<D: Database>(error: sqlx::Error) -> StoreError {
    StoreError::backend(D::NAME, error)
}
