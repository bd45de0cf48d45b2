//! PostgreSQL: the server that `POSTHASTE_TEST_POSTGRES_URL` names.

use posthaste_sql_writer::SchemaName;
use posthaste_sqlx::PgStore;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use super::{Statements, new_name, variable};

/// A schema for one test.
pub struct Postgres {
    pub store: PgStore,
    pool: PgPool,
    schema: SchemaName,
}

impl Postgres {
    pub const STATEMENTS: Statements = Statements::POSTGRES;
    /// The first statement on every connection.
    pub const PREPARE_SQL: &str = "SET client_min_messages = warning";

    pub async fn open() -> Self {
        let options: PgConnectOptions = server().parse().expect("a valid URL");
        let schema: SchemaName = new_name().parse().expect("a valid name");
        let store = PgStore::builder(&options).schema(schema.clone()).migrate().connect().await;
        let options = options.options([("search_path", schema.as_str())]);
        let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool");
        let db = Self { store: store.expect("the store opens"), pool, schema };
        db.execute(Self::STATEMENTS.orders).await;
        db.execute(Self::STATEMENTS.refuse_unwritable).await;
        db
    }

    pub fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// The URL for diesel, whose search path begins with the schema.
    pub fn url(&self) -> String {
        let server = server();
        let separator = if server.contains('?') { '&' } else { '?' };
        format!("{server}{separator}options=-csearch_path%3D{}", self.schema)
    }

    /// Another database with an outbox of the same name.
    pub async fn copy(&self) -> DatabaseCopy {
        let name = self.schema.to_string();
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let options: PgConnectOptions = server().parse().expect("a valid URL");
        let builder = PgStore::builder(&options.clone().database(&name)).schema(self.schema.clone());
        builder.migrate().connect().await.expect("the store opens").close().await;
        DatabaseCopy { name, options }
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
        self.store.close().await;
        self.execute(&format!(r#"DROP SCHEMA "{}" CASCADE"#, self.schema)).await;
        self.pool.close().await;
    }
}

pub struct DatabaseCopy {
    name: String,
    options: PgConnectOptions,
}

impl DatabaseCopy {
    /// The URL for diesel.
    pub fn url(&self) -> String {
        let server = server();
        let (server, _) = server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.name)
    }

    /// Drops the copy; returns the number of events in it.
    pub async fn close_copy(self) -> u64 {
        let pool = PgPool::connect_with(self.options.clone().database(&self.name)).await.expect("a pool");
        let count = format!("SELECT count(*) FROM {}.outbox_event", self.name);
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&pool).await.expect("a count");
        pool.close().await;
        let pool = PgPool::connect_with(self.options).await.expect("a pool");
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&pool).await.expect("the database goes");
        pool.close().await;
        count.cast_unsigned()
    }
}

fn server() -> String {
    variable("POSTHASTE_TEST_POSTGRES_URL")
}
