//! What the SQLite tests share: a database of one's own and an engine on it.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use posthaste::admin::Filter;
use posthaste::{Admin as _, EventId, Outbox, Recorder, Route, Routes, Status};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
pub use posthaste_testkit::*;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Row as _, SqlitePool};
use tempfile::TempDir;

/// A database in a folder that goes with it, a pool as a service has one, and a store on it.
pub struct Db {
    pub store: SqliteStore,
    pub pool: SqlitePool,
    pub options: SqliteConnectOptions,
    pub dir: TempDir,
}

impl Db {
    pub async fn new() -> Self {
        Self::with_pool(4).await
    }

    pub async fn with_pool(connections: u32) -> Self {
        Self::open(connections, |options| options).await
    }

    pub async fn open(
        connections: u32,
        change: impl FnOnce(SqliteConnectOptions) -> SqliteConnectOptions,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let options = SqliteConnectOptions::new().filename(dir.path().join("test.db"));
        let options = change(options.create_if_missing(true));
        let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
        let pool = SqlitePoolOptions::new().max_connections(connections);
        let pool = pool.connect_with(options.clone()).await.expect("the pool opens");
        Self { store, pool, options, dir }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("test.db")
    }

    /// A writer without an engine: its rows wait for somebody else.
    pub fn plain_writer(&self) -> SqliteWriter {
        let outbox = Outbox::builder(self.store.clone(), Routes::new())
            .writer_only()
            .build()
            .expect("a good configuration");
        self.store.writer(&outbox)
    }

    /// An engine that gives everything to the recorder and, left alone, polls once an hour.
    pub fn engine(&self, recorder: &Recorder) -> posthaste::Builder {
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        Outbox::builder(self.store.clone(), routes).single_node().poll_interval(HOUR)
    }

    pub fn start(&self, recorder: &Recorder) -> Outbox {
        self.engine(recorder).start().expect("a good configuration")
    }

    pub async fn execute(&self, sql: &str) {
        run(&self.pool, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn int(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.expect(sql)
    }

    /// One value, whatever it is, as text.
    pub async fn text(&self, sql: &str) -> Option<String> {
        let sql = format!("SELECT CAST(({sql}) AS TEXT)");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.expect("one value")
    }

    /// The ids in the table, in the order of their insertion.
    pub async fn ids(&self) -> Vec<String> {
        let rows = sqlx::query("SELECT event_id FROM outbox_event ORDER BY seq").fetch_all(&self.pool).await;
        rows.expect("rows").iter().map(|row| row.get(0)).collect()
    }

    pub async fn status(&self, id: &str) -> Option<Status> {
        let detail = self.store.get(&EventId::from(id)).await.expect("the store answers");
        detail.map(|detail| detail.row.status)
    }

    pub async fn count(&self, status: Status) -> u64 {
        self.store.count(&Filter::status(status)).await.expect("the store answers")
    }
}

pub async fn run(pool: &SqlitePool, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(|_| ())
}

/// The `sqlite3` shell on this database, if there is one on this machine: another program with a
/// SQLite library of its own.
pub fn shell(db: &Db) -> Option<Command> {
    let version = Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status();
    if version.is_err() {
        println!("SKIPPED: there is no sqlite3 shell on this machine");
        return None;
    }
    let mut shell = Command::new("sqlite3");
    shell.arg("-bail").arg(db.path());
    Some(shell)
}
