//! PostgreSQL, as the tests of every database know it: a schema of a test's own is the place of an outbox.
//!
//! The server is the one that `POSTHASTE_TEST_POSTGRES_URL` names; `cargo xtask test` starts one.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every program uses a part of it")]

use std::process::{Command, Stdio};

pub use posthaste_sqlx::postgres::{PgSavepoint as Savepoint, PgStoreBuilder as StoreBuilder};
pub use posthaste_sqlx::{PgStore as Store, PgTx as Tx, PgWriter as Writer};
use posthaste_sqlx::{PgStore, SchemaName};
pub use posthaste_testkit::server::{PostgresServer as OwnServer, PostgresShutdown as ServerShutdown};
use posthaste_testkit::writer_script::Statements;
use posthaste_testkit::{unique_name, variable};
pub use sqlx::postgres::{PgConnectOptions as Options, PgConnection as Connection};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _};
pub use sqlx::{PgPool as Pool, Postgres as Database};

use crate::support::{Db, run};

pub const INT_TYPE: &str = "bigint";
pub const TEXT_TYPE: &str = "text";
/// A time that is over, whatever the clock of the server says.
pub const LONG_AGO_SQL: &str = "'2000-01-01Z'";
/// The clock of the server, in microseconds.
pub const CLOCK_SQL: Option<&str> = Some("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8");
/// How a service begins a transaction in which it writes.
pub const BEGIN_SQL: &str = "BEGIN";
/// Every way to begin one by text.
pub const RAW_BEGINS_SQL: &[&str] = &["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL SERIALIZABLE"];
/// Every way to end one by text.
pub const RAW_ENDS_SQL: &[&str] = &["ROLLBACK", "COMMIT", "END", "ABORT"];
/// What a service says in the scripts of the Writers' suite.
pub const STATEMENTS: Statements = Statements::POSTGRES;
/// Whether a connection can be used again after a caller went away in the midst of a statement.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = true;
/// What is said where a login has no connection left.
pub const CONNECTION_LIMIT_ADVICE: &str = "PgBouncer";
/// Keeps everybody else from the table.
pub const LOCK_OUTBOX_SQL: &str = "BEGIN; LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE";
pub const UNLOCK_OUTBOX_SQL: &str = "ROLLBACK";
/// The largest number that the column `attempts` holds.
pub const MAX_ATTEMPTS: i64 = i32::MAX as i64;
/// As what a payload is stored.
pub const PAYLOAD_KIND_SQL: &str = "CASE WHEN payload_bytes IS NULL THEN 'text' ELSE 'blob' END";
/// How many batches of any events are written.
pub const PAYLOAD_CASES: u32 = 16;
/// How often a race for a new outbox is run.
pub const START_ROUNDS: usize = 3;
/// The indexes that the migrations make, without the name of the table.
pub const INDEXES: &[&str] = &["due", "pending", "parked", "done", "dead"];

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

/// A schema that no other test uses.
pub fn new_schema() -> SchemaName {
    unique_name("t").parse().expect("a good name")
}

/// A schema that no other test uses. Whoever migrates creates it.
pub struct Place {
    pub schema: SchemaName,
}

impl Place {
    pub async fn new() -> Self {
        Self { schema: new_schema() }
    }

    /// The same as another process knows it, by its [`location`](Self::location).
    pub fn at(location: &str) -> Self {
        Self { schema: location.parse().expect("a good name") }
    }

    pub fn location(&self) -> &str {
        self.schema.as_str()
    }

    pub async fn create(&self) {
        administrate(&format!(r#"CREATE SCHEMA "{}""#, self.schema)).await;
    }

    /// How a service connects: its search path begins with the schema.
    pub fn options(&self) -> PgConnectOptions {
        self.named_server().options([("search_path", self.schema.as_str())])
    }

    /// The sessions of a test can be told from others by their name.
    fn named_server(&self) -> PgConnectOptions {
        server().application_name(self.schema.as_str())
    }

    pub fn builder(&self) -> StoreBuilder {
        self.builder_on(&self.named_server())
    }

    /// A store in this schema by another way to the server, or as another user.
    pub fn builder_on(&self, options: &PgConnectOptions) -> StoreBuilder {
        PgStore::builder(options).schema(self.schema.clone())
    }

    /// A store of this user, who also listens.
    pub fn builder_as(&self, login: &Login) -> StoreBuilder {
        self.builder_on(&login.options).listen_on(&login.options)
    }

    pub async fn pool_as(&self, login: &Login) -> PgPool {
        pool_in(&self.schema, login.options.clone(), 1).await
    }

    /// One in which printed statements meet nothing that they expect.
    pub async fn with_other_defaults() -> Self {
        Self::new().await
    }

    /// A table of this place, in statements of any session.
    pub fn table(&self, name: &str) -> String {
        format!(r#""{}"."{name}""#, self.schema)
    }

    /// Gives the next row of a table this number.
    pub fn next_seq_sql(&self, table: &str, seq: i64) -> String {
        format!("SELECT setval(pg_get_serial_sequence('{}', 'seq'), {seq}, false)", self.table(table))
    }

    /// Lets `psql`, another program in another language, run this. False where there is none.
    pub fn shell(&self, sql: &str) -> bool {
        let sql = format!(r#"SET search_path = "{}"; {sql}"#, self.schema);
        let output = psql().arg("-c").arg(sql).stdout(Stdio::null()).output().expect("psql is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// Everything that is defined here, without the schema's own name.
    pub async fn contents(&self) -> Vec<String> {
        let sql = "SELECT 'column ' || table_name || ' ' || column_name || ' ' || data_type || ' '
              || concat_ws(' ', character_maximum_length, datetime_precision, column_default) || is_nullable || is_identity
            FROM information_schema.columns WHERE table_schema = $1
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
            UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = $1::regnamespace
            UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
            ORDER BY 1";
        let rows = sqlx::query_scalar(sql).bind(self.schema.as_str());
        let rows: Vec<String> = rows.fetch_all(&mut administrator().await).await.expect("a schema");
        rows.iter().map(|row| row.replace(self.schema.as_str(), "…")).collect()
    }

    /// Ends the sessions of the stores here; returns how many there were.
    pub async fn end_sessions(&self) -> usize {
        terminate(&format!("application_name LIKE '{}: posthaste%'", self.schema)).await
    }

    pub async fn remove(&self) {
        drop_schema(&self.schema).await;
    }
}

impl Db {
    /// How many transactions are open on the store's own connections.
    pub async fn open_transactions(&self) -> i64 {
        let open = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name LIKE '{}: posthaste%' AND state LIKE 'idle in transaction%'",
            self.schema
        );
        self.int(&open).await
    }

    /// How many statements of the store wait for a lock.
    pub async fn waiting_for_locks(&self) -> i64 {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE '{}: %'",
            self.schema
        );
        self.int(&waiting).await
    }

    /// Every row with all its columns, those excepted that depend on the time of its insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let sql = "SELECT (to_jsonb(o) - '{seq,available_at,inserted_at}'::text[])::text FROM outbox_event AS o \
            ORDER BY event_id";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }
}

/// Another database with an outbox of the same name, which says of itself that it is as old as the first.
pub struct DatabaseCopy {
    pub pool: PgPool,
    store: PgStore,
    name: String,
}

impl DatabaseCopy {
    pub async fn of(db: &Db) -> Self {
        let name = db.schema.to_string();
        administrate(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let options = server().database(&name);
        let store = db.builder_on(&options).migrate().connect().await.expect("the store opens");
        let pool = pool_in(&db.schema, options, 1).await;
        let born = db.text("SELECT applied_at FROM outbox_event_schema").await.expect("a time");
        run(&pool, &format!("UPDATE outbox_event_schema SET applied_at = '{born}'")).await.expect("done");
        Self { pool, store, name }
    }

    pub async fn close(self) {
        self.pool.close().await;
        self.store.close().await;
        administrate(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

pub async fn pool_in(schema: &SchemaName, options: PgConnectOptions, connections: u32) -> PgPool {
    let options = options.options([("search_path", schema.as_str())]);
    PgPoolOptions::new().max_connections(connections).connect_with(options).await.expect("the pool opens")
}

/// A login of one test's own, with all rights.
pub struct Login {
    pub name: String,
    pub options: PgConnectOptions,
}

impl Login {
    pub async fn new(password: &str) -> Self {
        Self::create(&format!("SUPERUSER PASSWORD '{password}'"), password).await
    }

    /// One that may be connected once.
    pub async fn with_one_connection() -> Self {
        Self::create("CONNECTION LIMIT 1", "").await
    }

    async fn create(attributes: &str, password: &str) -> Self {
        let name = format!("r{}", new_schema());
        administrate(&format!(r#"CREATE ROLE "{name}" LOGIN {attributes}"#)).await;
        Self { options: server().username(&name).password(password), name }
    }

    pub async fn end_sessions(&self) {
        terminate(&format!("usename = '{}'", self.name)).await;
    }

    pub async fn remove(self) {
        self.end_sessions().await;
        administrate(&format!(r#"DROP ROLE "{}""#, self.name)).await;
    }
}

/// A login that the server asks for its password.
pub async fn login_with_a_password() -> PgConnectOptions {
    server().username("with_password")
}

/// The same with a setting that the server refuses.
pub fn with_bad_setting(options: PgConnectOptions) -> PgConnectOptions {
    options.options([("no_such_setting", "1")])
}

/// Ways to a server that only reads.
pub struct ReadOnlyServer {
    place: Place,
    options: PgConnectOptions,
}

impl ReadOnlyServer {
    pub async fn new() -> Self {
        let options = server().options([("default_transaction_read_only", "on")]);
        Self { place: Place::migrated().await, options }
    }

    pub fn with_outbox(&self) -> StoreBuilder {
        self.place.builder_on(&self.options)
    }

    pub fn without_outbox(&self) -> StoreBuilder {
        PgStore::builder(&self.options).schema(new_schema())
    }

    pub async fn remove(self) {
        self.place.remove().await;
    }
}

/// A connection of the superuser, outside every schema of a test.
pub async fn administrator() -> PgConnection {
    PgConnection::connect_with(&server()).await.expect("a connection")
}

pub async fn administrate(sql: &str) {
    let done = run(&mut administrator().await, sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Ends the sessions on the server that this condition on `pg_stat_activity` names; returns how many.
pub async fn terminate(condition: &str) -> usize {
    let sql = format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {condition}");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut administrator().await).await;
    rows.expect("the administrator may").len()
}

/// Removes a schema with everything in it.
pub async fn drop_schema(schema: &SchemaName) {
    administrate(&format!(r#"DROP SCHEMA IF EXISTS "{schema}" CASCADE"#)).await;
}

/// The time in a column, and so many seconds.
pub fn plus_seconds_sql(time: &str, seconds: i32) -> String {
    format!("{time} + INTERVAL '{seconds}' SECOND")
}

pub fn drop_index_sql(name: &str) -> String {
    format!("DROP INDEX {name}")
}

/// Whether nothing is open on this connection. Asked in the simple protocol, in which the clock of a
/// statement is that of its transaction unless the transaction began before.
pub async fn is_outside_a_transaction(connection: &mut PgConnection) -> bool {
    let row = sqlx::raw_sql("SELECT now() = statement_timestamp()").fetch_one(connection).await;
    row.expect("the server answers").get(0)
}

/// The `psql` shell on the server.
fn psql() -> Command {
    let (mut psql, server) = (Command::new("psql"), server());
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]);
    psql.args(["-h", server.get_host(), "-p", &server.get_port().to_string(), "-U", server.get_username()]);
    psql.args(["-d", server.get_database().unwrap_or("postgres")]);
    psql
}
