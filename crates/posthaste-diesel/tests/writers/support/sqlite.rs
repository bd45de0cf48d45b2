//! SQLite: a file for one test.

use posthaste_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, SqlitePool};
use tempfile::TempDir;

use super::Statements;

pub struct Sqlite {
    pub store: SqliteStore,
    pool: SqlitePool,
    folder: TempDir,
}

impl Sqlite {
    pub const STATEMENTS: Statements = Statements::SQLITE;
    /// The first statement on every connection.
    pub const PREPARE_SQL: &str = "PRAGMA busy_timeout = 5000";

    pub async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteConnectOptions::new().filename(folder.path().join("test.db"));
        let options = options.create_if_missing(true);
        let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool");
        let db = Self { store, pool, folder };
        db.execute(Self::STATEMENTS.orders).await;
        db.execute(Self::STATEMENTS.refuse_unwritable).await;
        db
    }

    /// Another file with an outbox of the same name: a copy of this one.
    pub async fn copy(&self) -> DatabaseCopy {
        let file = self.folder.path().join("copy.db").display().to_string();
        self.execute(&format!("VACUUM INTO '{file}'")).await;
        DatabaseCopy(file)
    }

    /// The path for diesel.
    pub fn url(&self) -> String {
        self.folder.path().join("test.db").display().to_string()
    }

    pub async fn execute(&self, text: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(&self.pool).await;
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub async fn orders(&self) -> u64 {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&self.pool).await.expect("a count");
        count.cast_unsigned()
    }

    pub async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
    }
}

pub struct DatabaseCopy(String);

impl DatabaseCopy {
    /// The path for diesel.
    pub fn url(&self) -> String {
        self.0.clone()
    }

    /// Deletes the copy; returns the number of events in it.
    pub async fn close_copy(self) -> u64 {
        let pool = SqlitePool::connect(&format!("sqlite:{}", self.0)).await.expect("a pool");
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM outbox_event").fetch_one(&pool).await.expect("a count");
        pool.close().await;
        std::fs::remove_file(self.0).expect("the file is deleted");
        count.cast_unsigned()
    }
}
