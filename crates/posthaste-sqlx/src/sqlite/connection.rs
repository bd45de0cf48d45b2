//! The store's own connections to SQLite, and the meaning of their errors.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posthaste::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqlSafeStr as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::write_queue::{WritePermit, WriteQueue};
use crate::OpenError;
use crate::sql::Sql;
use crate::store::{Connections as _, failed};
use crate::transaction_depth::acquire;

/// Takes the write lock at the beginning. A transaction that reads first could not upgrade its lock after a commit of
/// another connection.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// How long a connection waits for a lock that another one holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a query. Its caller has given up by then, and the next query needs the connection.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// One connection that writes and a few that read. SQLite lets one connection write at a time: a second writer of the
/// store would only wait in SQLite's unordered retries instead of in a fair queue.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(super) write: SqlitePool,
    read: SqlitePool,
    pub(super) write_queue: WriteQueue,
    path: PathBuf,
}

impl Connections {
    pub(super) async fn open(options: SqliteConnectOptions) -> Result<Self, OpenError> {
        let path = options.get_filename().to_owned();
        // A database in memory lives as long as its last connection, so no connection may time out.
        let pool =
            || SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None).test_before_acquire(false);
        let write = pool().max_connections(1).connect_lazy_with(options.clone());
        let read = pool().max_connections(2).connect_lazy_with(options);
        let connections = Self { write, read, write_queue: WriteQueue::default(), path };
        // The first connection sets the file to WAL, and shows whether it is a database.
        let started = Instant::now();
        while let Err(error) = connections.write.acquire().await {
            wait_before_retry(error, started).await.map_err(|error| connections.explain(error))?;
        }
        Ok(connections)
    }

    /// Reports that nothing can be written, when the store is opened and not at its first claim. BEGIN IMMEDIATE does
    /// not show it: on a read-only database it only begins to read.
    pub(super) async fn check_writable(&self, sql: &Sql) -> Result<(), OpenError> {
        let nothing = sql.query::<Sqlite>(r#"DELETE FROM "{table}_control" WHERE false"#);
        match nothing.execute(&self.write).await {
            Err(error) if !is_busy(&error) => Err(self.explain(error)),
            // A lock that another connection holds for writing shows that the file can be written.
            _ => Ok(()),
        }
    }

    /// Runs one statement for the engine on the connection that writes.
    pub(super) async fn engine<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let result = async {
            let _permit = self.write_queue.acquire_for_engine().await;
            work(&mut *self.write.acquire().await?).await
        };
        result.await.map_err(|error| self.failed(error))
    }

    /// Runs statements for the engine in one transaction.
    pub(super) async fn engine_in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let result = async {
            let mut tx = self.begin().await?;
            let done = work(&mut tx).await?;
            tx.commit().await.map(|()| done)
        };
        result.await.map_err(|error| self.failed(error))
    }

    /// Begins a transaction that holds the write lock from the beginning, so that it cannot fail half way.
    pub(super) async fn begin(&self) -> sqlx::Result<Writing> {
        let permit = self.write_queue.acquire_for_engine().await;
        let connection = acquire(&self.write).await?;
        let tx = Transaction::begin(connection, Some(BEGIN.into_sql_str())).await?;
        Ok(Writing { tx, permit })
    }

    /// A connection to read from, for [`READ_TIMEOUT`].
    pub(super) async fn reader(&self) -> sqlx::Result<PoolConnection<Sqlite>> {
        self.reader_for(READ_TIMEOUT).await
    }

    async fn reader_for(&self, time: Duration) -> sqlx::Result<PoolConnection<Sqlite>> {
        const PROGRESS_STEPS: i32 = 10_000;
        let mut connection = self.read.acquire().await?;
        let started = Instant::now();
        connection
            .lock_handle()
            .await?
            .set_progress_handler(PROGRESS_STEPS, move || started.elapsed() < time);
        Ok(connection)
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        failed::<Sqlite>(self, error)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl crate::store::Connections for Connections {
    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, &self.path)
    }

    async fn close(&self) {
        self.write.close().await;
        self.read.close().await;
    }
}

/// A write transaction with its place in the write queue.
#[derive(Debug)]
pub(crate) struct Writing {
    tx: Transaction<'static, Sqlite>,
    // Dropped last, so that the next one in the queue finds SQLite's lock free.
    permit: WritePermit,
}

impl Writing {
    pub(super) async fn commit(self) -> sqlx::Result<()> {
        let Self { tx, permit } = self;
        let committed = tx.commit().await;
        drop(permit);
        committed
    }
}

impl Deref for Writing {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

pub(super) fn engine_options(options: &SqliteConnectOptions) -> SqliteConnectOptions {
    // If a power failure loses a settlement, the event is delivered once more.
    reader_options(options).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal)
}

/// Leaves the journal mode as it is, because setting it would change the file.
pub(super) fn reader_options(options: &SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .clone()
        .busy_timeout(BUSY_TIMEOUT)
        // The driver's thread can hand over a whole batch before the reading task is woken.
        .row_buffer_size(1024)
        .disable_statement_logging()
}

/// Waits a little before the next try to connect. Returns the error if waiting does not help. The first connections to
/// a new file all try to set it to WAL, and SQLite's busy timeout does not apply to that lock.
pub(super) async fn wait_before_retry(error: sqlx::Error, since: Instant) -> sqlx::Result<()> {
    const RETRY_DELAY: Duration = Duration::from_millis(20);
    if !is_busy(&error) || since.elapsed() >= BUSY_TIMEOUT {
        return Err(error);
    }
    tokio::time::sleep(RETRY_DELAY).await;
    Ok(())
}

/// SQLite's primary result codes.
mod code {
    pub(super) const BUSY: i64 = 5;
    pub(super) const LOCKED: i64 = 6;
    pub(super) const READONLY: i64 = 8;
    pub(super) const INTERRUPT: i64 = 9;
    pub(super) const CANTOPEN: i64 = 14;
    pub(super) const NOTADB: i64 = 26;
}

pub(super) fn explain(error: sqlx::Error, path: &Path) -> OpenError {
    let path = || path.to_owned();
    match primary_code(&error) {
        Some(code::CANTOPEN) if !path().exists() => OpenError::MissingFile(path()),
        Some(code::READONLY) => OpenError::ReadOnly(path()),
        Some(code::BUSY | code::LOCKED) => OpenError::Locked(path()),
        Some(code::INTERRUPT) => {
            OpenError::TookTooLong { server: path().display().to_string(), source: error }
        }
        Some(code::NOTADB) => OpenError::NotADatabase(path()),
        _ => OpenError::Database(error),
    }
}

/// The primary result code. The extended code is in the higher bytes.
fn primary_code(error: &sqlx::Error) -> Option<i64> {
    let code: i64 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(code::BUSY | code::LOCKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_query_is_cancelled_and_the_next_one_succeeds() {
        let options = engine_options(&"sqlite::memory:".parse().expect("a good URL"));
        let connections = Connections::open(options).await.expect("a database");
        let long = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n";
        let mut connection = connections.reader_for(Duration::ZERO).await.expect("a connection");
        let error = sqlx::query(long).execute(&mut *connection).await.expect_err("it never ends");
        assert!(matches!(connections.explain(error), OpenError::TookTooLong { .. }));
        drop(connection);
        let mut connection = connections.reader().await.expect("a connection");
        sqlx::query("SELECT 1").execute(&mut *connection).await.expect("it works again");
    }
}
