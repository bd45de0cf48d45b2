//! How SQLite takes events.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::sqlite::Statements;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Executor as _, Row as _, Sqlite, SqliteConnection, SqlitePool};

use super::insert;
use super::write_queue::WriteQueue;
use crate::sql::ready;
use crate::writer::{WriterDialect, failed};

/// What a Writer of SQLite has besides its context.
#[derive(Clone, Debug)]
pub(crate) struct WriterState {
    pub(super) write_queue: WriteQueue,
    /// Pools that are known to lead to the file of the outbox.
    known: Arc<Mutex<Vec<Arc<SqliteConnectOptions>>>>,
}

impl WriterState {
    pub(super) fn new(write_queue: WriteQueue) -> Self {
        Self { write_queue, known: Arc::default() }
    }

    /// A pool is asked once, and known by its options, which it keeps for as long as it opens connections
    /// with them.
    pub(super) async fn expect_database_of(
        &self,
        context: &WriterContext<posthaste_sql_writer::Sqlite>,
        pool: &SqlitePool,
        connection: &mut SqliteConnection,
    ) -> Result<(), StoreError> {
        const MAX_KNOWN_POOLS: usize = 16;
        let options = pool.connect_options();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().iter().any(|known| Arc::ptr_eq(known, &options)) {
            return Ok(());
        }
        Sqlite::expect_database(context, connection).await?;
        let mut known = known();
        if known.len() == MAX_KNOWN_POOLS {
            known.clear();
        }
        known.push(options);
        Ok(())
    }
}

impl WriterDialect for Sqlite {
    type Outbox = posthaste_sql_writer::Sqlite;
    type WriterState = WriterState;

    async fn expect_database(
        context: &WriterContext<Self::Outbox>,
        connection: &mut SqliteConnection,
    ) -> Result<(), StoreError> {
        if !context.statements().must_identify(None) {
            return Ok(());
        }
        let found = identify(context.statements(), connection).await.map_err(failed::<Sqlite>)?;
        context.statements().expect_database(&found)
    }

    async fn expect_transaction(
        _context: &WriterContext<Self::Outbox>,
        connection: &mut SqliteConnection,
    ) -> Result<(), StoreError> {
        match is_in_transaction(connection).await.map_err(failed::<Sqlite>)? {
            true => Ok(()),
            false => Err(StoreError::NoTransaction),
        }
    }

    async fn insert(
        statements: &Statements,
        connection: &mut SqliteConnection,
        rows: &[NewRow],
    ) -> sqlx::Result<Vec<Option<i64>>> {
        insert::insert(statements, connection, rows).await
    }
}

/// Where a connection leads, as [`posthaste_sql_writer::sqlite::DatabaseFile`] wants to know it.
pub(super) async fn identify(
    statements: &Statements,
    connection: &mut SqliteConnection,
) -> sqlx::Result<Vec<(i64, String)>> {
    let rows = ready::<Sqlite>(&statements.identify).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(2)?))).collect()
}

/// Asks SQLite itself. The driver's own count misses a raw BEGIN, a raw COMMIT, and the rollback that
/// follows a full disk.
///
/// SQLite refuses this setting inside a transaction, and ignores it outside one because it is the
/// temporary database's. A BEGIN would tell as well, but would stay open if the caller was dropped
/// before its ROLLBACK. Not a prepared statement: SQLite looks when it parses the text.
async fn is_in_transaction(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    match connection.execute("PRAGMA temp.synchronous = OFF").await {
        Ok(_) => Ok(false),
        Err(error) => match error.as_database_error() {
            Some(refused) if refused.message().contains("inside a transaction") => Ok(true),
            _ => Err(error),
        },
    }
}
