//! What the MySQL tests share: a database of one's own, a store and a pool on it.
//!
//! The server is the one that `POSTHASTE_TEST_MYSQL_URL` names, a MariaDB or a MySQL; `cargo xtask test`
//! starts a MariaDB.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

use std::process::Command;

use posthaste::admin::Filter;
use posthaste::{Admin as _, EventId, Outbox, Recorder, Route, Routes, Status};
use posthaste_sqlx::OpenError;
use posthaste_sqlx::mysql::MySqlStoreBuilder;
// The names by which the cases of every server know them.
pub use posthaste_sqlx::{MySqlStore as Store, MySqlTx as Tx, MySqlWriter as Writer};
use posthaste_sqlx::{MySqlStore, MySqlWriter};
pub use posthaste_testkit::server::{MariaDbServer as OwnServer, MariaDbShutdown as ServerShutdown};
pub use posthaste_testkit::*;
pub use sqlx::mysql::MySqlConnectOptions as Options;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, MySqlPool, Row as _};
pub use sqlx::{MySql as Database, MySqlPool as Pool};

/// Whether a connection can be used again after a caller went away in the midst of a statement.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = false;

/// The server of this test run.
pub fn server() -> MySqlConnectOptions {
    const URL_VAR: &str = "POSTHASTE_TEST_MYSQL_URL";
    variable(URL_VAR).parse().unwrap_or_else(|error| panic!("{URL_VAR}: {error}"))
}

/// How to reach a server of a test's own.
pub fn options_of(server: &OwnServer) -> MySqlConnectOptions {
    server.url().parse().expect("a good URL")
}

/// A database that nobody else uses.
pub async fn new_database() -> String {
    new_database_with("").await
}

/// The same with options, such as a character set.
pub async fn new_database_with(options: &str) -> String {
    let name = unique_name("t");
    administrate(&format!("CREATE DATABASE {name} {options}")).await;
    name
}

/// A database of one's own, a store in it, and a pool as a service has one.
pub struct Db {
    pub store: MySqlStore,
    pub pool: MySqlPool,
    pub options: MySqlConnectOptions,
    pub name: String,
}

impl Db {
    pub async fn new() -> Self {
        Self::with_pool(4).await
    }

    pub async fn with_pool(connections: u32) -> Self {
        Self::open(connections, |builder| builder).await
    }

    pub async fn open(connections: u32, change: impl FnOnce(MySqlStoreBuilder) -> MySqlStoreBuilder) -> Self {
        let name = new_database().await;
        let options = server().database(&name);
        let store = change(MySqlStore::builder(&options)).migrate().connect().await;
        let store = store.expect("the store opens");
        let pool = MySqlPoolOptions::new().max_connections(connections).connect_with(options.clone());
        Self { store, pool: pool.await.expect("the pool opens"), options, name }
    }

    /// A second store on the same table, as another process has one.
    pub async fn another_store(&self) -> MySqlStore {
        MySqlStore::connect(&self.options).await.expect("the store opens")
    }

    /// The location of the outbox, for [`open_at`].
    pub fn location(&self) -> &str {
        &self.name
    }

    /// A writer in another process, as far as an engine can see: without a hot path.
    pub async fn writer_elsewhere(&self) -> MySqlWriter {
        plain_writer(&self.another_store().await)
    }

    /// A writer without an engine: its rows wait for somebody else.
    pub fn plain_writer(&self) -> MySqlWriter {
        plain_writer(&self.store)
    }

    /// An engine that gives everything to the recorder and, left alone, polls once an hour.
    pub fn engine(&self, recorder: &Recorder) -> posthaste::Builder {
        engine(&self.store, recorder)
    }

    pub fn start(&self, recorder: &Recorder) -> Outbox {
        self.engine(recorder).start().expect("a good configuration")
    }

    /// How many transactions are open on connections to this database, this one excepted.
    pub async fn open_transactions(&self) -> i64 {
        let open = format!(
            "SELECT COUNT(*) FROM information_schema.innodb_trx
             JOIN information_schema.processlist ON id = trx_mysql_thread_id
             WHERE db = '{}' AND id <> CONNECTION_ID()",
            self.name
        );
        self.int(&open).await
    }

    pub async fn execute(&self, sql: &str) {
        run(&self.pool, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn int(&self, sql: &str) -> i64 {
        let sql = format!("SELECT CAST(({sql}) AS SIGNED)");
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
        let sql = "SELECT JSON_ARRAY(event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, \
            content_type, schema_version, payload, HEX(payload_bytes), headers, status, attempts, deferrals, \
            lost_leases, replays, parked, progress, created_at, done_at, last_error, locked_by, locked_at, \
            lease_token, settlement) FROM outbox_event ORDER BY event_id";
        let rows = sqlx::raw_sql(sql).fetch_all(&self.pool).await.expect("rows");
        rows.iter().map(|row| row.get_unchecked(0)).collect()
    }

    pub async fn status(&self, id: &str) -> Option<Status> {
        let detail = self.store.get(&EventId::from(id)).await.expect("the store answers");
        detail.map(|detail| detail.row.status)
    }

    pub async fn count(&self, status: Status) -> u64 {
        self.store.count(&Filter::status(status)).await.expect("the store answers")
    }

    /// The end of a test that passed: a database that stays behind belongs to one that did not.
    pub async fn close(self) {
        self.pool.close().await;
        self.store.close().await;
        drop_database(&self.name).await;
    }
}

/// An outbox that is there, as another process opens it, and a pool as it has one.
pub async fn open_at(location: &str, connections: u32) -> (MySqlStore, MySqlPool) {
    let options = server().database(location);
    let store = MySqlStore::connect(&options).await.expect("the store opens");
    let pool = MySqlPoolOptions::new().max_connections(connections).connect_with(options);
    (store, pool.await.expect("the pool opens"))
}

/// An engine that gives everything to the recorder and, left alone, polls once an hour.
pub fn engine(store: &MySqlStore, recorder: &Recorder) -> posthaste::Builder {
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    Outbox::builder(store.clone(), routes).single_node().poll_interval(HOUR)
}

pub fn plain_writer(store: &MySqlStore) -> MySqlWriter {
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    store.writer(&outbox)
}

pub async fn run(pool: &MySqlPool, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(|_| ())
}

pub async fn text_of(pool: &MySqlPool, sql: &str) -> Option<String> {
    let sql = format!("SELECT CAST(({sql}) AS CHAR)");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.expect("one value")
}

/// Lets the `mariadb` shell, another program in another language, run this in a database. Its session has
/// the time zone of the server.
pub fn shell(database: &str, sql: &str) {
    let server = server();
    let mut shell = Command::new("mariadb");
    shell.args([
        "--no-defaults",
        "--protocol=tcp",
        "--default-character-set=utf8mb4",
        "-h",
        server.get_host(),
    ]);
    shell.args(["-P", &server.get_port().to_string(), "-u", server.get_username(), database, "-e", sql]);
    let answer = shell.output().expect("the mariadb shell is there");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
}

/// A connection outside every database of a test.
pub async fn administrator() -> MySqlConnection {
    MySqlConnection::connect_with(&server()).await.expect("a connection")
}

pub async fn administrate(sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut administrator().await).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub async fn drop_database(name: &str) {
    administrate(&format!("DROP DATABASE IF EXISTS {name}")).await;
}

/// What a statement of an administrator's answers, a line for each row.
pub async fn lines(sql: &str) -> Vec<String> {
    let rows = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut administrator().await).await;
    rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Every column that is defined in a database.
pub async fn columns(database: &str) -> Vec<String> {
    let sql = "SELECT CONCAT_WS(' ', table_name, column_name, ordinal_position, column_type, collation_name,
        is_nullable, COALESCE(column_default, '-'), extra)
      FROM information_schema.columns WHERE table_schema = '{}' ORDER BY 1";
    lines(&sql.replace("{}", database)).await
}

/// Everything that is defined in a database.
pub async fn contents(database: &str) -> Vec<String> {
    let keys = "SELECT CONCAT_WS(' ', table_name, index_name, seq_in_index, column_name, non_unique)
      FROM information_schema.statistics WHERE table_schema = '{}' ORDER BY 1";
    let checks = "SELECT CONCAT_WS(' ', constraint_name, check_clause)
      FROM information_schema.check_constraints WHERE constraint_schema = '{}' ORDER BY 1";
    let mut contents = columns(database).await;
    for sql in [keys, checks] {
        contents.extend(lines(&sql.replace("{}", database)).await);
    }
    contents
}

/// Opens it both as it is and with migrations, and answers the error of each.
pub async fn errors_of(builder: MySqlStoreBuilder) -> [OpenError; 2] {
    let plain = builder.clone().connect().await.expect_err("it cannot be opened");
    [plain, builder.migrate().connect().await.expect_err("it cannot be migrated")]
}

/// A user of this test alone.
pub async fn new_user(password: &str, options: &str) -> String {
    let name = format!("u{:016x}", fastrand::u64(..));
    administrate(&format!("CREATE USER {name}@'%' IDENTIFIED BY '{password}' {options}")).await;
    administrate(&format!("GRANT ALL ON *.* TO {name}@'%'")).await;
    name
}

pub async fn drop_user(name: &str) {
    administrate(&format!("DROP USER {name}@'%'")).await;
}

/// Ends the sessions on the server that this condition on the process list names; answers how many.
pub async fn kill_connections(condition: &str) -> usize {
    let sql = format!("SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE {condition}");
    let ids = lines(&sql).await;
    for id in &ids {
        // It may have ended meanwhile.
        let kill = AssertSqlSafe(format!("KILL CONNECTION {id}"));
        let _ = sqlx::raw_sql(kill).execute(&mut administrator().await).await;
    }
    ids.len()
}

/// Whether nothing is open on this connection: outside a transaction a savepoint is gone at once.
pub async fn is_outside_a_transaction(connection: &mut MySqlConnection) -> bool {
    sqlx::raw_sql("SAVEPOINT probe; RELEASE SAVEPOINT probe").execute(connection).await.is_err()
}

/// Whether the server is a MariaDB.
pub async fn is_mariadb() -> bool {
    let version = sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut administrator().await).await;
    let version: String = version.expect("the server answers");
    version.contains("MariaDB")
}
