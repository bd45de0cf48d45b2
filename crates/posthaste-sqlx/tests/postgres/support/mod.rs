//! What the PostgreSQL tests share: a schema of one's own, a store and a pool on it.
//!
//! The server is the one that `POSTHASTE_TEST_POSTGRES_URL` names; `cargo xtask test` starts one.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

use std::process::Command;

use posthaste::admin::Filter;
use posthaste::{Admin as _, EventId, Outbox, Recorder, Route, Routes, Status};
use posthaste_sqlx::SchemaName;
use posthaste_sqlx::postgres::PgStoreBuilder;
// The names by which the cases of every server know them.
pub use posthaste_sqlx::{PgStore as Store, PgTx as Tx, PgWriter as Writer};
use posthaste_sqlx::{PgStore, PgWriter};
pub use posthaste_testkit::server::{PostgresServer as OwnServer, PostgresShutdown as ServerShutdown};
pub use posthaste_testkit::*;
pub use sqlx::postgres::PgConnectOptions as Options;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _};
pub use sqlx::{PgPool as Pool, Postgres as Database};

/// Whether a connection can be used again after a caller went away in the midst of a statement.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = true;

/// The server of this test run.
pub fn server() -> PgConnectOptions {
    options("POSTHASTE_TEST_POSTGRES_URL")
}

/// The PgBouncer before it, in transaction mode, with a pool of two.
pub fn pgbouncer() -> PgConnectOptions {
    options("POSTHASTE_TEST_PGBOUNCER_URL")
}

fn options(name: &str) -> PgConnectOptions {
    variable(name).parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// How to reach a server of a test's own.
pub fn options_of(server: &OwnServer) -> PgConnectOptions {
    server.url().parse().expect("a good URL")
}

/// How to reach the server by a way to it on another port of this host.
pub fn options_by(port: u16) -> PgConnectOptions {
    server().host("127.0.0.1").port(port).ssl_mode(PgSslMode::Disable)
}

/// A schema that nobody else uses.
pub fn new_schema() -> SchemaName {
    unique_name("t").parse().expect("a good name")
}

/// A database of one's own: a schema that goes with it, a store in it, and a pool as a service has one,
/// whose search path begins with that schema.
pub struct Db {
    pub store: PgStore,
    pub pool: PgPool,
    pub schema: SchemaName,
}

impl Db {
    pub async fn new() -> Self {
        Self::with_pool(4).await
    }

    pub async fn with_pool(connections: u32) -> Self {
        Self::open(connections, |builder| builder).await
    }

    pub async fn open(connections: u32, change: impl FnOnce(PgStoreBuilder) -> PgStoreBuilder) -> Self {
        let schema = new_schema();
        // The sessions of this test can be told from others by their name.
        let options = server().application_name(schema.as_str());
        let store = change(PgStore::builder(&options).schema(schema.clone())).migrate().connect().await;
        let store = store.expect("the store opens");
        let pool = pool_in(&schema, options, connections).await;
        Self { store, pool, schema }
    }

    /// A second store on the same table, as another process has one.
    pub async fn another_store(&self) -> PgStore {
        PgStore::builder(&server()).schema(self.schema.clone()).connect().await.expect("the store opens")
    }

    /// The location of the outbox, for [`open_at`].
    pub fn location(&self) -> &str {
        self.schema.as_str()
    }

    /// A writer in another process, as far as an engine can see: without a hot path.
    pub async fn writer_elsewhere(&self) -> PgWriter {
        plain_writer(&self.another_store().await)
    }

    /// A writer without an engine: its rows wait for somebody else.
    pub fn plain_writer(&self) -> PgWriter {
        plain_writer(&self.store)
    }

    /// An engine that gives everything to the recorder and, left alone, polls once an hour.
    pub fn engine(&self, recorder: &Recorder) -> posthaste::Builder {
        engine(&self.store, recorder)
    }

    pub fn start(&self, recorder: &Recorder) -> Outbox {
        self.engine(recorder).start().expect("a good configuration")
    }

    /// How many transactions are open on the store's own connections.
    pub async fn open_transactions(&self) -> i64 {
        let open = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name LIKE '{}: posthaste%' AND state LIKE 'idle in transaction%'",
            self.schema
        );
        self.int(&open).await
    }

    pub async fn execute(&self, sql: &str) {
        run(&self.pool, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn int(&self, sql: &str) -> i64 {
        let sql = format!("SELECT ({sql})::int8");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.expect("one value")
    }

    /// One value, whatever it is, as text.
    pub async fn text(&self, sql: &str) -> Option<String> {
        text_of(&self.pool, sql).await
    }

    /// The ids in the table, in the order of their insertion.
    pub async fn ids(&self) -> Vec<String> {
        let rows = sqlx::query("SELECT event_id FROM outbox_event ORDER BY seq").fetch_all(&self.pool).await;
        rows.expect("rows").iter().map(|row| row.get(0)).collect()
    }

    /// Every row with all its columns, those excepted that depend on the time of its insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let sql = "SELECT (to_jsonb(o) - '{seq,available_at,inserted_at}'::text[])::text FROM outbox_event AS o \
            ORDER BY event_id";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }

    pub async fn status(&self, id: &str) -> Option<Status> {
        let detail = self.store.get(&EventId::from(id)).await.expect("the store answers");
        detail.map(|detail| detail.row.status)
    }

    pub async fn count(&self, status: Status) -> u64 {
        self.store.count(&Filter::status(status)).await.expect("the store answers")
    }

    /// The end of a test that passed: a schema that stays behind belongs to one that did not.
    pub async fn close(self) {
        self.pool.close().await;
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

/// An outbox that is there, as another process opens it, and a pool as it has one.
pub async fn open_at(location: &str, connections: u32) -> (PgStore, PgPool) {
    let schema: SchemaName = location.parse().expect("a good name");
    let store = PgStore::builder(&server()).schema(schema.clone()).connect().await;
    (store.expect("the store opens"), pool_in(&schema, server(), connections).await)
}

pub async fn pool_in(schema: &SchemaName, options: PgConnectOptions, connections: u32) -> PgPool {
    let options = options.options([("search_path", schema.as_str())]);
    PgPoolOptions::new().max_connections(connections).connect_with(options).await.expect("the pool opens")
}

pub fn plain_writer(store: &PgStore) -> PgWriter {
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    store.writer(&outbox)
}

pub fn engine(store: &PgStore, recorder: &Recorder) -> posthaste::Builder {
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    Outbox::builder(store.clone(), routes).single_node().poll_interval(HOUR)
}

pub async fn run(pool: &PgPool, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(|_| ())
}

pub async fn text_of(pool: &PgPool, sql: &str) -> Option<String> {
    let sql = format!("SELECT ({sql})::text");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.expect("one value")
}

/// A connection of the superuser, outside every schema of a test.
pub async fn administrator() -> PgConnection {
    PgConnection::connect_with(&server()).await.expect("a connection")
}

/// Ends the sessions on the server that this condition on `pg_stat_activity` names; answers how many.
pub async fn terminate(condition: &str) -> usize {
    let sql = format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {condition}");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut administrator().await).await;
    rows.expect("the administrator may").len()
}

/// Removes a schema with everything in it.
pub async fn drop_schema(schema: &SchemaName) {
    let mut connection = administrator().await;
    let sql = AssertSqlSafe(format!(r#"DROP SCHEMA IF EXISTS "{schema}" CASCADE"#));
    sqlx::raw_sql(sql).execute(&mut connection).await.expect("the schema goes");
}

/// Whether nothing is open on this connection. Asked in the simple protocol, in which the clock of a
/// statement is that of its transaction unless the transaction began before.
pub async fn is_outside_a_transaction(connection: &mut PgConnection) -> bool {
    let row = sqlx::raw_sql("SELECT now() = statement_timestamp()").fetch_one(connection).await;
    row.expect("the server answers").get(0)
}

/// The `psql` shell on the server: another program, in another language.
pub fn psql() -> Command {
    let (mut psql, server) = (Command::new("psql"), server());
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]);
    psql.args(["-h", server.get_host(), "-p", &server.get_port().to_string(), "-U", server.get_username()]);
    psql.args(["-d", server.get_database().unwrap_or("postgres")]);
    psql
}
