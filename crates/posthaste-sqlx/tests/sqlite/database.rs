//! SQLite, as the tests of every database know it: a file of a test's own is the place of an outbox.

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
/// A time that is over, whatever the clock says.
pub const LONG_AGO_SQL: &str = "0";
/// None: the clock of this machine.
pub const CLOCK_SQL: Option<&str> = None;
/// How a service begins a transaction in which it writes.
pub const BEGIN_SQL: &str = "BEGIN IMMEDIATE";
/// Every way to begin one by text.
pub const RAW_BEGINS_SQL: &[&str] = &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT outermost"];
/// Every way to end one by text.
pub const RAW_ENDS_SQL: &[&str] = &["ROLLBACK", "COMMIT"];
/// What a service says in the scripts of the Writers' suite.
pub const STATEMENTS: Statements = Statements::SQLITE;
/// Whether a connection can be used again after a caller went away in the midst of a statement.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = true;
/// The largest number that the column `attempts` holds.
pub const MAX_ATTEMPTS: i64 = i64::MAX;
/// As what a payload is stored.
pub const PAYLOAD_KIND_SQL: &str = "typeof(payload)";
/// How many batches of any events are written.
pub const PAYLOAD_CASES: u32 = 64;
/// How often a race for a new outbox is run.
pub const START_ROUNDS: usize = 20;
/// The indexes that the migrations make, without the name of the table.
pub const INDEXES: &[&str] = &["due", "pending", "parked", "done", "dead"];

/// A file in a folder that goes with it. Whoever connects creates it.
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

    /// It is created by the first who connects.
    pub async fn create(&self) {}

    pub fn options(&self) -> SqliteConnectOptions {
        self.options.clone()
    }

    pub fn builder(&self) -> StoreBuilder {
        SqliteStore::builder(&self.options)
    }

    /// One in which printed statements meet nothing that they expect.
    pub async fn with_other_defaults() -> Self {
        Self::new().await
    }

    /// A table of this place, in statements of any session.
    pub fn table(&self, name: &str) -> String {
        format!(r#""{name}""#)
    }

    /// Gives the next row of a table this number.
    pub fn next_seq_sql(&self, table: &str, seq: i64) -> String {
        format!("UPDATE sqlite_sequence SET seq = {} WHERE name = '{table}'", seq - 1)
    }

    /// Lets the `sqlite3` shell, another program with a SQLite library of its own, run this. False where there is none.
    pub fn shell(&self, sql: &str) -> bool {
        let Some(mut shell) = self.shell_command() else { return false };
        let output = shell.arg(sql).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// The shell itself, if there is one on this machine.
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

    /// Everything that is defined here.
    pub async fn contents(&self) -> Vec<String> {
        let sql =
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY type, name";
        self.texts(sql).await
    }

    /// The folder goes with the place.
    pub async fn remove(&self) {}
}

impl Db {
    /// Every row with all its columns, those excepted that depend on the time of its insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let columns = "event_id, quote(event_type), quote(aggregate_type), quote(aggregate_id), quote(tenant_id), \
            quote(topic), quote(content_type), quote(schema_version), quote(headers), typeof(payload), hex(payload), \
            quote(created_at), typeof(available_at), typeof(inserted_at), quote(locked_by), quote(locked_at), \
            quote(lease_token)";
        let sql = format!("SELECT json_array({columns}) FROM outbox_event ORDER BY event_id");
        texts_of(&self.pool, &sql).await
    }
}

/// Another file with an outbox of the same name: a copy of the first.
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

/// The time in a column, and so many seconds.
pub fn plus_seconds_sql(time: &str, seconds: i32) -> String {
    format!("{time} + {seconds} * 1000000")
}

pub fn drop_index_sql(name: &str) -> String {
    format!("DROP INDEX {name}")
}

/// Whether nothing is open on this connection.
pub async fn is_outside_a_transaction(connection: &mut SqliteConnection) -> bool {
    run(connection, "BEGIN IMMEDIATE; ROLLBACK").await.is_ok()
}
