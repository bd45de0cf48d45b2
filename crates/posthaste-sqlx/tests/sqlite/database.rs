//! SQLite for the cases of every database: each test has a file of its own.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every program uses a part of it")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use posthaste_sqlx::SqliteStore;
pub use posthaste_sqlx::sqlite::{SqliteSavepoint as Savepoint, SqliteStoreBuilder as StoreBuilder};
pub use posthaste_sqlx::{SqliteStore as Store, SqliteTx as Tx, SqliteWriter as Writer};
use posthaste_testkit::writer_script::Statements;
use sqlx::sqlite::SqliteConnectOptions;
pub use sqlx::sqlite::{SqliteConnectOptions as Options, SqliteConnection as Connection};
pub use sqlx::{Sqlite as Database, SqlitePool as Pool};
use sqlx::{SqliteConnection, SqlitePool};
use tempfile::TempDir;

use crate::support::{Db, run, texts_of};

pub const INT_TYPE: &str = "INTEGER";
pub const TEXT_TYPE: &str = "TEXT";
/// A time in the past by any clock.
pub const LONG_AGO_SQL: &str = "0";
/// `None`: the clock of this machine.
pub const CLOCK_SQL: Option<&str> = None;
/// How a service begins a transaction that writes.
pub const BEGIN_SQL: &str = "BEGIN IMMEDIATE";
/// All statements that begin a transaction.
pub const RAW_BEGINS_SQL: &[&str] = &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT outermost"];
/// All statements that end a transaction.
pub const RAW_ENDS_SQL: &[&str] = &["ROLLBACK", "COMMIT"];
/// The statements of a service in the scripts of the Writers' suite.
pub const STATEMENTS: Statements = Statements::SQLITE;
/// Whether a connection can be used again after a statement was dropped.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = true;
/// The largest value of the column `attempts`.
pub const MAX_ATTEMPTS: i64 = i64::MAX;
/// The kind of a stored payload.
pub const PAYLOAD_KIND_SQL: &str = "typeof(payload)";
/// The number of generated batches.
pub const PAYLOAD_CASES: u32 = 64;
/// The number of races for a new outbox.
pub const START_ROUNDS: usize = 20;
/// The indexes of the migrations, without the name of the table.
pub const INDEXES: &[&str] = &["due", "pending", "parked", "done", "dead"];

/// A file in a temporary folder. The first connection creates it.
pub struct Place {
    pub options: SqliteConnectOptions,
    pub dir: TempDir,
}

impl Place {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let options = SqliteConnectOptions::new().filename(dir.path().join("it's a test.db"));
        Self { options: options.create_if_missing(true), dir }
    }

    pub fn path(&self) -> PathBuf {
        self.options.get_filename().to_owned()
    }

    /// The first connection creates the file.
    pub async fn create(&self) {}

    pub fn options(&self) -> SqliteConnectOptions {
        self.options.clone()
    }

    pub fn builder(&self) -> StoreBuilder {
        SqliteStore::builder(&self.options)
    }

    /// A place in which printed statements find no default that they rely on.
    pub async fn with_other_defaults() -> Self {
        Self::new().await
    }

    /// A table of this place, as statements of any session name it.
    pub fn table(&self, name: &str) -> String {
        format!(r#""{name}""#)
    }

    /// Sets the number of the next row of a table.
    pub fn next_seq_sql(&self, table: &str, seq: i64) -> String {
        format!("UPDATE sqlite_sequence SET seq = {} WHERE name = '{table}'", seq - 1)
    }

    /// Runs SQL in the `sqlite3` shell, a program with another SQLite library. Returns false if there is no such shell.
    pub fn shell(&self, sql: &str) -> bool {
        let Some(mut shell) = self.shell_command() else { return false };
        let output = shell.arg(sql).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// The shell, if it is installed.
    pub fn shell_command(&self) -> Option<Command> {
        let version = Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status();
        if version.is_err() {
            println!("SKIPPED: there is no sqlite3 shell on this machine");
            return None;
        }
        let mut shell = Command::new("sqlite3");
        shell.arg("-bail").arg(self.path());
        Some(shell)
    }

    /// All definitions in this place.
    pub async fn contents(&self) -> Vec<String> {
        let sql =
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY type, name";
        self.texts(sql).await
    }

    /// The folder is removed when the place is dropped.
    pub async fn remove(&self) {}
}

impl Db {
    /// Every row with all columns that do not depend on the time of insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let columns = "event_id, quote(event_type), quote(aggregate_type), quote(aggregate_id), quote(tenant_id), \
            quote(topic), quote(content_type), quote(schema_version), quote(headers), typeof(payload), hex(payload), \
            quote(created_at), typeof(available_at), typeof(inserted_at), quote(locked_by), quote(locked_at), \
            quote(lease_token)";
        let sql = format!("SELECT json_array({columns}) FROM outbox_event ORDER BY event_id");
        texts_of(&self.pool, &sql).await
    }
}

/// A copy of the file, with an outbox of the same name.
pub struct DatabaseCopy {
    pub pool: SqlitePool,
    file: PathBuf,
}

impl DatabaseCopy {
    pub async fn of(db: &Db) -> Self {
        let file = db.dir.path().join("copy.db");
        db.execute(&format!("VACUUM INTO '{}'", file.display())).await;
        let pool = SqlitePool::connect_with(db.options().filename(&file)).await.expect("a pool");
        Self { pool, file }
    }

    pub async fn close(self) {
        self.pool.close().await;
        std::fs::remove_file(self.file).expect("it goes");
    }
}

/// The time in a column plus this many seconds.
pub fn plus_seconds_sql(time: &str, seconds: i32) -> String {
    format!("{time} + {seconds} * 1000000")
}

pub fn drop_index_sql(name: &str) -> String {
    format!("DROP INDEX {name}")
}

/// True if the connection is outside a transaction.
pub async fn is_outside_a_transaction(connection: &mut SqliteConnection) -> bool {
    run(connection, "BEGIN IMMEDIATE; ROLLBACK").await.is_ok()
}
