//! MySQL or MariaDB: the server that `POSTHASTE_TEST_MYSQL_URL` names.

use posthaste_sqlx::MySqlStore;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool};

use super::{Statements, new_name, variable};

/// A database for one test.
pub struct MySql {
    pub store: MySqlStore,
    pub pool: MySqlPool,
    name: String,
}

impl MySql {
    pub const STATEMENTS: Statements = Statements::MYSQL;
    /// The first statement on every connection.
    pub const PREPARE_SQL: &str = "SET SESSION innodb_lock_wait_timeout = 20";

    pub async fn open() -> Self {
        let (name, server) = (new_name(), server());
        administrate(&server, &format!("CREATE DATABASE {name}")).await;
        let options = server.database(&name);
        let store = MySqlStore::builder(&options).migrate().connect().await.expect("the store opens");
        let pool = MySqlPoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool");
        let db = Self { store, pool, name };
        db.execute(Self::STATEMENTS.orders).await;
        db.execute(Self::STATEMENTS.refuse_unwritable).await;
        db
    }

    /// Another database with an outbox of the same name.
    pub async fn copy(&self) -> Self {
        Self::open().await
    }

    /// Drops the copy; returns the number of events in it.
    pub async fn close_copy(self) -> u64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM outbox_event").fetch_one(&self.pool).await;
        self.close().await;
        i64::cast_unsigned(count.expect("a count"))
    }

    /// The URL for diesel.
    pub fn url(&self) -> String {
        let url = variable("POSTHASTE_TEST_MYSQL_URL");
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.name)
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
        administrate(&server(), &format!("DROP DATABASE {}", self.name)).await;
    }
}

fn server() -> MySqlConnectOptions {
    variable("POSTHASTE_TEST_MYSQL_URL").parse().expect("a valid URL")
}

async fn administrate(server: &MySqlConnectOptions, text: &str) {
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(server.clone()).await.expect("a pool");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&pool).await.expect("the administrator may");
    pool.close().await;
}
