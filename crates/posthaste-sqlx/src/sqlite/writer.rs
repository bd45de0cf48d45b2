//! The Writer on SQLite: checks around the INSERT.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::sqlite::{self, Statements};
use sqlx::sqlite::{SqliteConnectOptions, SqliteQueryResult};
use sqlx::{Executor as _, Row as _, Sqlite, SqliteConnection, SqlitePool};

use super::write_queue::WriteQueue;
use crate::sql::ready;
use crate::writer::{WriterDialect, failed};
use crate::writer_session::{WriterSession, WriterSessionDialect};

/// The state of a Writer on SQLite besides its context.
#[derive(Clone, Debug)]
pub(crate) struct WriterState {
    pub(super) write_queue: WriteQueue,
    /// The options of pools that lead to the file of the outbox, at most `MAX_KNOWN_POOLS`. Filled by `begin`.
    known: Arc<Mutex<Vec<Arc<SqliteConnectOptions>>>>,
}

impl WriterState {
    pub(super) fn new(write_queue: WriteQueue) -> Self {
        Self { write_queue, known: Arc::default() }
    }

    /// Checks the file of a pool once. A pool is recognized by its `Arc` of options, which stays the same until its
    /// options are changed.
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
        sqlite::insert(&mut WriterSession::<Self>::new(connection), statements, rows).await
    }
}

impl WriterSessionDialect for Sqlite {
    fn inserted(result: &SqliteQueryResult) -> (u64, Option<i64>) {
        (result.rows_affected(), Some(result.last_insert_rowid()))
    }
}

/// The files of a connection, as [`posthaste_sql_writer::sqlite::DatabaseFile`] takes them.
pub(super) async fn identify(
    statements: &Statements,
    connection: &mut SqliteConnection,
) -> sqlx::Result<Vec<(i64, String)>> {
    let rows = ready::<Sqlite>(&statements.identify).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(2)?))).collect()
}

/// Whether a transaction is open. Asks SQLite itself, because the driver's count misses a BEGIN or COMMIT sent as an
/// SQL text, and the rollback after a full disk.
///
/// SQLite refuses this setting inside a transaction. Outside one it has no effect, because it belongs to the temporary
/// database. A BEGIN would show it too, but would stay open if the caller was dropped before its ROLLBACK. The
/// statement must not be prepared: SQLite checks it when it parses the text.
async fn is_in_transaction(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    match connection.execute("PRAGMA temp.synchronous = OFF").await {
        Ok(_) => Ok(false),
        Err(error) => match error.as_database_error() {
            Some(refused) if refused.message().contains("inside a transaction") => Ok(true),
            _ => Err(error),
        },
    }
}
