//! PostgreSQL: the server that `POSTHASTE_TEST_POSTGRES_URL` names.

use posthaste::Outbox;
use posthaste_sql::{Door, SchemaName};
use posthaste_sqlx::PgStore;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use super::{Texts, new_name, variable};

/// A schema of one's own.
pub struct Postgres {
    pub store: PgStore,
    pool: PgPool,
    schema: SchemaName,
}

impl Postgres {
    pub const TEXTS: Texts = Texts {
        prepare: "SET client_min_messages = warning",
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "SELECT 1/0",
        aborts: "SELECT 1/0",
    };
    pub const FAILED_STATEMENT_ABORTS: bool = true;

    pub async fn open() -> Self {
        let options: PgConnectOptions = server().parse().expect("a good URL");
        let schema: SchemaName = new_name().parse().expect("a good name");
        let store = PgStore::builder(&options).schema(schema.clone()).migrate().connect().await;
        let options = options.options([("search_path", schema.as_str())]);
        let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool");
        let db = Self { store: store.expect("the store opens"), pool, schema };
        db.execute("CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)").await;
        db
    }

    pub fn door(&self, outbox: &Outbox) -> Door<posthaste_sql::Postgres> {
        self.store.door(outbox)
    }

    /// For diesel: its search path begins with the schema.
    pub fn url(&self) -> String {
        let server = server();
        let separator = if server.contains('?') { '&' } else { '?' };
        format!("{server}{separator}options=-csearch_path%3D{}", self.schema)
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

fn server() -> String {
    variable("POSTHASTE_TEST_POSTGRES_URL")
}
