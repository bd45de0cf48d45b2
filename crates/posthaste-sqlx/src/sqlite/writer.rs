//! The Writer on the service's own pool.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste::writer::Scope;
use posthaste::{Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql_writer::sqlite::Statements;
use posthaste_sql_writer::{Sqlite, WriterContext};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Executor as _, Row as _, SqliteConnection, SqlitePool};

use super::insert;
use super::write_queue::WriteQueue;
use crate::sql::ready;
use crate::transaction_depth::transaction_depth;

/// Writes events in transactions of the service's own pool; made by
/// [`SqliteStore::writer`](super::SqliteStore::writer), cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteWriter {
    pub(super) context: WriterContext<Sqlite>,
    pub(super) write_queue: WriteQueue,
    /// Pools that are known to lead to the file of the outbox.
    known: Arc<Mutex<Vec<Arc<SqliteConnectOptions>>>>,
}

impl SqliteWriter {
    pub(super) fn new(context: WriterContext<Sqlite>, write_queue: WriteQueue) -> Self {
        Self { context, write_queue, known: Arc::default() }
    }

    /// A pool is asked once, and known by its options, which it keeps for as long as it opens connections
    /// with them.
    pub(super) async fn expect_database_of(
        &self,
        pool: &SqlitePool,
        connection: &mut SqliteConnection,
    ) -> Result<(), StoreError> {
        const MAX_KNOWN_POOLS: usize = 16;
        let options = pool.connect_options();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().iter().any(|known| Arc::ptr_eq(known, &options)) {
            return Ok(());
        }
        expect_database(&self.context, connection).await?;
        let mut known = known();
        if known.len() == MAX_KNOWN_POOLS {
            known.clear();
        }
        known.push(options);
        Ok(())
    }

    /// Inserts one event into the transaction that is open on this connection. After the commit give
    /// the receipt to [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction, and in another file than that of the outbox, it is refused. In a savepoint the
    /// receipt is only a wake-up.
    pub async fn insert(
        &self,
        connection: &mut SqliteConnection,
        event: Event,
    ) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all(
        &self,
        connection: &mut SqliteConnection,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        expect_database(&self.context, connection).await?;
        let scope = if transaction_depth::<sqlx::Sqlite>(connection) > 1 {
            Scope::ForeignSavepoint
        } else {
            Scope::Transaction
        };
        let (_, receipt) = write(&self.context, connection, events, scope).await?;
        Ok(receipt)
    }
}

/// Refuses a connection to another file than that of the outbox.
async fn expect_database(
    context: &WriterContext<Sqlite>,
    connection: &mut SqliteConnection,
) -> Result<(), StoreError> {
    if !context.statements().must_identify(None) {
        return Ok(());
    }
    let found = identify(context.statements(), connection).await.map_err(failed)?;
    context.statements().expect_database(&found)
}

/// Where a connection leads, as [`posthaste_sql_writer::sqlite::DatabaseFile`] wants to know it.
pub(super) async fn identify(
    statements: &Statements,
    connection: &mut SqliteConnection,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    let rows = ready::<sqlx::Sqlite>(&statements.identify).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(2)?))).collect()
}

/// Asks SQLite itself. The driver's own count misses a raw BEGIN, a raw COMMIT, and the rollback that
/// follows a full disk.
///
/// SQLite refuses this setting inside a transaction, and ignores it outside one because it is the
/// temporary database's. A BEGIN would tell as well, but would stay open if the caller went away
/// before its ROLLBACK. Not a prepared statement: SQLite looks when it parses the text.
async fn is_in_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    match connection.execute("PRAGMA temp.synchronous = OFF").await {
        Ok(_) => Ok(false),
        Err(error) => match error.as_database_error() {
            Some(refused) if refused.message().contains("inside a transaction") => Ok(true),
            _ => Err(error),
        },
    }
}

/// Probe, hooks, limits, INSERT. Answers the ids that stand for the events now, duplicates included.
pub(super) async fn write(
    context: &WriterContext<Sqlite>,
    connection: &mut SqliteConnection,
    events: Vec<Event>,
    scope: Scope,
) -> Result<(Vec<EventId>, Receipt), WriteError> {
    if !is_in_transaction(connection).await.map_err(failed)? {
        return Err(StoreError::NoTransaction.into());
    }
    let prepared = context.core().prepare(events, scope)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    let seqs = insert::insert(context.statements(), connection, prepared.rows()).await.map_err(failed)?;
    Ok((ids, prepared.written(&seqs)))
}

/// The pool and its file are the service's own, so its errors are passed on as they are.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    StoreError::backend("SQLite", error)
}
