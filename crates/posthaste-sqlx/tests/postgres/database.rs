//! PostgreSQL for the cases of every database: each test has a schema of its own.
//!
//! The server is the one in `POSTHASTE_TEST_POSTGRES_URL`; `cargo xtask test` starts one.

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
/// A time in the past by any clock.
pub const LONG_AGO_SQL: &str = "'2000-01-01Z'";
/// The clock of the server, in microseconds.
pub const CLOCK_SQL: Option<&str> = Some("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8");
/// How a service begins a transaction that writes.
pub const BEGIN_SQL: &str = "BEGIN";
/// All statements that begin a transaction.
pub const RAW_BEGINS_SQL: &[&str] = &["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL SERIALIZABLE"];
/// All statements that end a transaction.
pub const RAW_ENDS_SQL: &[&str] = &["ROLLBACK", "COMMIT", "END", "ABORT"];
/// The statements of a service in the scripts of the Writers' suite.
pub const STATEMENTS: Statements = Statements::POSTGRES;
/// Whether a connection can be used again after a statement was dropped.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = true;
/// The advice of the error for a login without a free connection.
pub const CONNECTION_LIMIT_ADVICE: &str = "PgBouncer";
/// Locks the table for all other sessions.
pub const LOCK_OUTBOX_SQL: &str = "BEGIN; LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE";
pub const UNLOCK_OUTBOX_SQL: &str = "ROLLBACK";
/// The largest value of the column `attempts`.
pub const MAX_ATTEMPTS: i64 = i32::MAX as i64;
/// The kind of a stored payload.
pub const PAYLOAD_KIND_SQL: &str = "CASE WHEN payload_bytes IS NULL THEN 'text' ELSE 'blob' END";
/// The number of generated batches.
pub const PAYLOAD_CASES: u32 = 16;
/// The number of races for a new outbox.
pub const START_ROUNDS: usize = 3;
/// The indexes of the migrations, without the name of the table.
pub const INDEXES: &[&str] = &["due", "pending", "parked", "done", "dead"];

/// The server of this test run.
pub fn server() -> PgConnectOptions {
    options("POSTHASTE_TEST_POSTGRES_URL")
}

/// PgBouncer before that server, in transaction mode, with a pool of two connections.
pub fn pgbouncer() -> PgConnectOptions {
    options("POSTHASTE_TEST_PGBOUNCER_URL")
}

fn options(name: &str) -> PgConnectOptions {
    variable(name).parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The login of a server that a test has started.
pub fn options_of(server: &OwnServer) -> PgConnectOptions {
    server.url().parse().expect("a good URL")
}

/// The server through another port of this host.
pub fn options_by(port: u16) -> PgConnectOptions {
    server().host("127.0.0.1").port(port).ssl_mode(PgSslMode::Disable)
}

/// The name of a new schema.
pub fn new_schema() -> SchemaName {
    unique_name("t").parse().expect("a good name")
}

/// A schema for one test. Migrations create it.
pub struct Place {
    pub schema: SchemaName,
}

impl Place {
    pub async fn new() -> Self {
        Self { schema: new_schema() }
    }

    /// The place with this [`location`](Self::location), in another process.
    pub fn at(location: &str) -> Self {
        Self { schema: location.parse().expect("a good name") }
    }

    pub fn location(&self) -> &str {
        self.schema.as_str()
    }

    pub async fn create(&self) {
        administrate(&format!(r#"CREATE SCHEMA "{}""#, self.schema)).await;
    }

    /// The options of a service: its search path begins with the schema.
    pub fn options(&self) -> PgConnectOptions {
        self.named_server().options([("search_path", self.schema.as_str())])
    }

    /// The application name identifies the sessions of this test.
    fn named_server(&self) -> PgConnectOptions {
        server().application_name(self.schema.as_str())
    }

    pub fn builder(&self) -> StoreBuilder {
        self.builder_on(&self.named_server())
    }

    /// A store in this schema through another address or as another user.
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

    /// A place in which printed statements find no default that they rely on.
    pub async fn with_other_defaults() -> Self {
        Self::new().await
    }

    /// A table of this place, as statements of any session name it.
    pub fn table(&self, name: &str) -> String {
        format!(r#""{}"."{name}""#, self.schema)
    }

    /// Sets the number of the next row of a table.
    pub fn next_seq_sql(&self, table: &str, seq: i64) -> String {
        format!("SELECT setval(pg_get_serial_sequence('{}', 'seq'), {seq}, false)", self.table(table))
    }

    /// Runs SQL in `psql`, an independent client. Returns false if there is no such shell.
    pub fn shell(&self, sql: &str) -> bool {
        let sql = format!(r#"SET search_path = "{}"; {sql}"#, self.schema);
        let output = psql().arg("-c").arg(sql).stdout(Stdio::null()).output().expect("psql is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// All definitions in this place, without the name of the schema.
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

    /// Ends the sessions of the stores of this place. Returns their number.
    pub async fn end_sessions(&self) -> usize {
        terminate(&format!("application_name LIKE '{}: posthaste%'", self.schema)).await
    }

    pub async fn remove(&self) {
        drop_schema(&self.schema).await;
    }
}

impl Db {
    /// The number of open transactions on the store's own connections.
    pub async fn open_transactions(&self) -> i64 {
        let open = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name LIKE '{}: posthaste%' AND state LIKE 'idle in transaction%'",
            self.schema
        );
        self.int(&open).await
    }

    /// The number of statements of the store that wait for a lock.
    pub async fn waiting_for_locks(&self) -> i64 {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE '{}: %'",
            self.schema
        );
        self.int(&waiting).await
    }

    /// Every row with all columns that do not depend on the time of insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let sql = "SELECT (to_jsonb(o) - '{seq,available_at,inserted_at}'::text[])::text FROM outbox_event AS o \
            ORDER BY event_id";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }
}

/// Another database with an outbox of the same name and the same recorded age.
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

/// A login for one test, with all rights.
pub struct Login {
    pub name: String,
    pub options: PgConnectOptions,
}

impl Login {
    pub async fn new(password: &str) -> Self {
        Self::create(&format!("SUPERUSER PASSWORD '{password}'"), password).await
    }

    /// A login that is limited to one connection.
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

/// A login with a password.
pub async fn login_with_a_password() -> PgConnectOptions {
    server().username("with_password")
}

/// The same with a setting that the server refuses.
pub fn with_bad_setting(options: PgConnectOptions) -> PgConnectOptions {
    options.options([("no_such_setting", "1")])
}

/// Logins to a read-only server.
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

/// A connection of the superuser, outside the schemas of the tests.
pub async fn administrator() -> PgConnection {
    PgConnection::connect_with(&server()).await.expect("a connection")
}

pub async fn administrate(sql: &str) {
    let done = run(&mut administrator().await, sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Ends the sessions in `pg_stat_activity` that meet this condition. Returns their number.
pub async fn terminate(condition: &str) -> usize {
    let sql = format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {condition}");
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut administrator().await).await;
    rows.expect("the administrator may").len()
}

/// Removes a schema with everything in it.
pub async fn drop_schema(schema: &SchemaName) {
    administrate(&format!(r#"DROP SCHEMA IF EXISTS "{schema}" CASCADE"#)).await;
}

/// The time in a column plus this many seconds.
pub fn plus_seconds_sql(time: &str, seconds: i32) -> String {
    format!("{time} + INTERVAL '{seconds}' SECOND")
}

pub fn drop_index_sql(name: &str) -> String {
    format!("DROP INDEX {name}")
}

/// True if the connection is outside a transaction. Uses the simple protocol: there, the clock of a statement equals
/// that of its transaction unless the transaction began earlier.
pub async fn is_outside_a_transaction(connection: &mut PgConnection) -> bool {
    let row = sqlx::raw_sql("SELECT now() = statement_timestamp()").fetch_one(connection).await;
    row.expect("a reply of the server").get(0)
}

/// The `psql` shell on the server.
fn psql() -> Command {
    let (mut psql, server) = (Command::new("psql"), server());
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]);
    psql.args(["-h", server.get_host(), "-p", &server.get_port().to_string(), "-U", server.get_username()]);
    psql.args(["-d", server.get_database().unwrap_or("postgres")]);
    psql
}
