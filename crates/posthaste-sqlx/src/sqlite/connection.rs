//! The store's own connections, and what their errors mean.

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

/// Takes the write lock from the start.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// How long a connection waits for a lock that another one holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long anybody may read. Whoever asked has given up by then, and the next one wants the connection.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// One connection that writes and a few that read. SQLite lets one connection write at a time: a
/// second writer of ours would only wait in SQLite's lottery instead of in a fair queue.
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
        // A database in memory lives as long as its last connection: none may time out.
        let pool =
            || SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None).test_before_acquire(false);
        let write = pool().max_connections(1).connect_lazy_with(options.clone());
        let read = pool().max_connections(2).connect_lazy_with(options);
        let connections = Self { write, read, write_queue: WriteQueue::default(), path };
        // The first connection of all turns the file to WAL, and says whether it is one.
        let started = Instant::now();
        while let Err(error) = connections.write.acquire().await {
            wait_before_retry(error, started).await.map_err(|error| connections.explain(error))?;
        }
        Ok(connections)
    }

    /// Says when the store is opened, and not at its first claim, that nothing can be written. BEGIN
    /// IMMEDIATE would not: on such a database it only reads.
    pub(super) async fn check_writable(&self, sql: &Sql) -> Result<(), OpenError> {
        let nothing = sql.query::<Sqlite>(r#"DELETE FROM "{table}_control" WHERE false"#);
        match nothing.execute(&self.write).await {
            Err(error) if !is_busy(&error) => Err(self.explain(error)),
            // Somebody who is writing just now shows that one can.
            _ => Ok(()),
        }
    }

    /// Runs one statement for the engine on the writing connection.
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

    /// Runs several statements for the engine, all of them or none.
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

    /// A transaction that holds the write lock from its start, so that it never fails half way.
    pub(super) async fn begin(&self) -> sqlx::Result<Writing> {
        let permit = self.write_queue.acquire_for_engine().await;
        let connection = acquire(&self.write).await?;
        let tx = Transaction::begin(connection, Some(BEGIN.into_sql_str())).await?;
        Ok(Writing { tx, permit })
    }

    /// A connection to read, for some time and no longer.
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

/// A transaction with the permit to write.
#[derive(Debug)]
pub(crate) struct Writing {
    tx: Transaction<'static, Sqlite>,
    // Dropped last: the next one finds the lock free.
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
    // A settlement that a power cut takes back means one more delivery.
    reader_options(options).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal)
}

/// Without WAL, which would stay with the file.
pub(super) fn reader_options(options: &SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .clone()
        .busy_timeout(BUSY_TIMEOUT)
        // The driver's thread hands over a whole batch before anybody has to wake up for it.
        .row_buffer_size(1024)
        .disable_statement_logging()
}

/// Waits a little before the next try to connect; gives the error back when it is no use. The first
/// connections to a new file all want to turn it to WAL, and SQLite does not wait for that lock as it
/// does for others.
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

/// The result code without its extension, which stands in the higher bytes.
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
    async fn question_that_takes_too_long_is_ended_and_the_next_is_answered() {
        let options = engine_options(&"sqlite::memory:".parse().expect("a good URL"));
        let connections = Connections::open(options).await.expect("a database");
        let long = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n";
        let mut connection = connections.reader_for(Duration::ZERO).await.expect("a connection");
        let error = sqlx::query(long).execute(&mut *connection).await.expect_err("it never ends");
        assert!(matches!(connections.explain(error), OpenError::TookTooLong { .. }));
        drop(connection);
        let mut connection = connections.reader().await.expect("a connection");
        sqlx::query("SELECT 1").execute(&mut *connection).await.expect("it answers again");
    }
}
