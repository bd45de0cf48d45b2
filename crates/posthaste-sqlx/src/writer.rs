//! The Writer on the service's own pool.

use std::fmt;

use posthaste::writer::{NewRow, Scope};
use posthaste::{Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;
use sqlx::Database;

use crate::SqlStore;
use crate::store::StoreDialect;
use crate::transaction_depth::transaction_depth;

/// How one database takes events.
pub(crate) trait WriterDialect: Database {
    /// The same database for Writers of all drivers.
    type Outbox: posthaste_sql_writer::Database + fmt::Debug;

    /// What a Writer has besides its context.
    type WriterState: Clone + fmt::Debug + Send + Sync;

    /// Refuses a connection to another database than that of the outbox, where the INSERT does not.
    fn expect_database(
        _context: &WriterContext<Self::Outbox>,
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Refuses a connection on which no transaction is open, where the INSERT does not.
    fn expect_transaction(
        context: &WriterContext<Self::Outbox>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Inserts rows into the transaction that is open on this connection, and returns their `seq`s; `None` where the
    /// id existed already.
    fn insert(
        statements: &Statements<Self>,
        connection: &mut Self::Connection,
        rows: &[NewRow],
    ) -> impl Future<Output = sqlx::Result<Vec<Option<i64>>>> + Send;

    /// Why an INSERT has failed.
    fn refused(
        _context: &WriterContext<Self::Outbox>,
        _connection: &mut Self::Connection,
        error: sqlx::Error,
    ) -> impl Future<Output = StoreError> + Send {
        async { failed::<Self>(error) }
    }
}

/// What Writers say to a database.
pub(crate) type Statements<D> = <<D as WriterDialect>::Outbox as posthaste_sql_writer::Database>::Statements;

/// Writes events in transactions of the service's own pool; made by the `writer` of a store, cheap to clone.
#[derive(Debug)]
pub struct Writer<D: WriterDialect> {
    pub(crate) context: WriterContext<D::Outbox>,
    pub(crate) state: D::WriterState,
}

impl<D: StoreDialect> Writer<D> {
    /// A Writer for this outbox. Create it once and clone it: every clone shares its statements.
    pub fn new(store: &SqlStore<D>, outbox: &Outbox) -> Self {
        Self { context: D::writer_context(store, outbox.writer_core()), state: D::writer_state(store) }
    }
}

impl<D: WriterDialect> Writer<D> {
    /// Inserts one event into the transaction that is open on this connection. After the commit give
    /// the receipt to [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction, and in another database or file than that of the outbox, it is refused. In a savepoint
    /// the receipt is only a wake-up.
    ///
    /// On MySQL, sqlx 0.9.0 cannot use a connection again on which a statement was dropped before it ended, whichever
    /// statement it was: a caller that may be dropped calls `close_on_drop()` on its connection before, or uses
    /// [`begin`](Self::begin).
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
        // The driver counts only what it began itself.
        let scope = match transaction_depth::<D>(connection) {
            0 | 1 => Scope::Transaction,
            _ => Scope::ForeignSavepoint,
        };
        let (_, receipt) = self.write(connection, events, scope).await?;
        Ok(receipt)
    }

    /// Hooks, limits, INSERT. Returns the ids of the events, duplicates included.
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

/// The pool is the service's own, so its errors are passed on as they are.
pub(crate) fn failed<D: Database>(error: sqlx::Error) -> StoreError {
    StoreError::backend(D::NAME, error)
}
