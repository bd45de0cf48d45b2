//! MySQL and MariaDB for the cases of every database: each test has a database of its own.
//!
//! The server is the MariaDB or MySQL in `POSTHASTE_TEST_MYSQL_URL`; `cargo xtask test` starts a MariaDB.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every program uses a part of it")]

use std::process::Command;

use posthaste_sqlx::MySqlStore;
pub use posthaste_sqlx::mysql::{MySqlSavepoint as Savepoint, MySqlStoreBuilder as StoreBuilder};
pub use posthaste_sqlx::{MySqlStore as Store, MySqlTx as Tx, MySqlWriter as Writer};
pub use posthaste_testkit::server::{MariaDbServer as OwnServer, MariaDbShutdown as ServerShutdown};
use posthaste_testkit::writer_script::Statements;
use posthaste_testkit::{unique_name, variable};
use sqlx::mysql::MySqlConnectOptions;
pub use sqlx::mysql::{MySqlConnectOptions as Options, MySqlConnection as Connection};
use sqlx::{Connection as _, MySqlConnection, Row as _};
pub use sqlx::{MySql as Database, MySqlPool as Pool};

use crate::support::{Db, run, texts_of};

pub const INT_TYPE: &str = "SIGNED";
pub const TEXT_TYPE: &str = "CHAR";
/// A time in the past by any clock.
pub const LONG_AGO_SQL: &str = "'2000-01-01'";
/// The clock of the server, in microseconds.
pub const CLOCK_SQL: Option<&str> = Some("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))");
/// How a service begins a transaction that writes.
pub const BEGIN_SQL: &str = "START TRANSACTION";
/// All statements that begin a transaction.
pub const RAW_BEGINS_SQL: &[&str] = &["BEGIN", "START TRANSACTION"];
/// All statements that end a transaction, including one that commits implicitly.
pub const RAW_ENDS_SQL: &[&str] = &["ROLLBACK", "COMMIT", "TRUNCATE orders"];
/// The statements of a service in the scripts of the Writers' suite.
pub const STATEMENTS: Statements = Statements::MYSQL;
/// Whether a connection can be used again after a statement was dropped.
pub const DROPPED_STATEMENT_IS_HARMLESS: bool = false;
/// The advice of the error for a login without a free connection.
pub const CONNECTION_LIMIT_ADVICE: &str = "max_connections";
/// Locks the table for all other sessions.
pub const LOCK_OUTBOX_SQL: &str = "LOCK TABLES outbox_event WRITE";
pub const UNLOCK_OUTBOX_SQL: &str = "UNLOCK TABLES";
/// The largest value of the column `attempts`.
pub const MAX_ATTEMPTS: i64 = i32::MAX as i64;
/// The kind of a stored payload.
pub const PAYLOAD_KIND_SQL: &str = "CASE WHEN payload_bytes IS NULL THEN 'text' ELSE 'blob' END";
/// The number of generated batches.
pub const PAYLOAD_CASES: u32 = 16;
/// The number of races for a new outbox.
pub const START_ROUNDS: usize = 3;
/// The indexes of the migrations, without the name of the table.
pub const INDEXES: &[&str] = &["id", "due", "phase", "parked"];

/// The server of this test run.
pub fn server() -> MySqlConnectOptions {
    const URL_VAR: &str = "POSTHASTE_TEST_MYSQL_URL";
    variable(URL_VAR).parse().unwrap_or_else(|error| panic!("{URL_VAR}: {error}"))
}

/// The login of a server that a test has started.
pub fn options_of(server: &OwnServer) -> MySqlConnectOptions {
    server.url().parse().expect("a good URL")
}

/// A database for one test.
pub struct Place {
    pub name: String,
    pub options: MySqlConnectOptions,
}

impl Place {
    pub async fn new() -> Self {
        Self::with_charset("utf8mb4").await
    }

    pub async fn with_charset(charset: &str) -> Self {
        let place = Self::at(&unique_name("t"));
        administrate(&format!("CREATE DATABASE {} CHARACTER SET {charset}", place.name)).await;
        place
    }

    /// The place with this [`location`](Self::location), in another process.
    pub fn at(location: &str) -> Self {
        Self { name: location.to_owned(), options: server().database(location) }
    }

    pub fn location(&self) -> &str {
        &self.name
    }

    /// The database exists since the place was created.
    pub async fn create(&self) {}

    pub fn options(&self) -> MySqlConnectOptions {
        self.options.clone()
    }

    pub fn builder(&self) -> StoreBuilder {
        MySqlStore::builder(&self.options)
    }

    pub fn builder_as(&self, login: &Login) -> StoreBuilder {
        MySqlStore::builder(&login.options.clone().database(&self.name))
    }

    pub async fn pool_as(&self, login: &Login) -> Pool {
        Pool::connect_with(login.options.clone().database(&self.name)).await.expect("the pool opens")
    }

    /// A database with another character set than an outbox needs.
    pub async fn with_other_defaults() -> Self {
        Self::with_charset("latin1").await
    }

    /// A table of this place, as statements of any session name it.
    pub fn table(&self, name: &str) -> String {
        format!("`{}`.`{name}`", self.name)
    }

    /// Sets the number of the next row of a table.
    pub fn next_seq_sql(&self, table: &str, seq: i64) -> String {
        format!("ALTER TABLE {} AUTO_INCREMENT = {seq}", self.table(table))
    }

    /// Runs SQL in the `mariadb` shell, an independent client. Its session has the time zone of the server. Returns
    /// false if there is no such shell.
    pub fn shell(&self, sql: &str) -> bool {
        let (mut shell, server) = (Command::new("mariadb"), server());
        shell.args(["--no-defaults", "--protocol=tcp", "--default-character-set=utf8mb4"]);
        shell.args(["-h", server.get_host(), "-P", &server.get_port().to_string()]);
        shell.args(["-u", server.get_username(), &self.name, "-e", sql]);
        let output = shell.output().expect("the mariadb shell is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    }

    /// All columns of all tables.
    pub async fn columns(&self) -> Vec<String> {
        let sql =
            "SELECT CONCAT_WS(' ', table_name, column_name, ordinal_position, column_type, collation_name,
            is_nullable, COALESCE(column_default, '-'), extra)
          FROM information_schema.columns WHERE table_schema = '{}' ORDER BY 1";
        lines(&sql.replace("{}", &self.name)).await
    }

    /// All definitions in this place.
    pub async fn contents(&self) -> Vec<String> {
        let keys = "SELECT CONCAT_WS(' ', table_name, index_name, seq_in_index, column_name, non_unique)
          FROM information_schema.statistics WHERE table_schema = '{}' ORDER BY 1";
        let checks = "SELECT CONCAT_WS(' ', constraint_name, check_clause)
          FROM information_schema.check_constraints WHERE constraint_schema = '{}' ORDER BY 1";
        let mut contents = self.columns().await;
        for sql in [keys, checks] {
            contents.extend(lines(&sql.replace("{}", &self.name)).await);
        }
        contents
    }

    /// Ends all sessions in this place, including those of pools. Returns their number.
    pub async fn end_sessions(&self) -> usize {
        kill_connections(&format!("db = '{}'", self.name)).await
    }

    pub async fn remove(&self) {
        administrate(&format!("DROP DATABASE IF EXISTS {}", self.name)).await;
    }
}

impl Db {
    /// The number of open transactions on connections to this database, except this one.
    pub async fn open_transactions(&self) -> i64 {
        let open = format!(
            "SELECT COUNT(*) FROM information_schema.innodb_trx
             JOIN information_schema.processlist ON id = trx_mysql_thread_id
             WHERE db = '{}' AND id <> CONNECTION_ID()",
            self.name
        );
        self.int(&open).await
    }

    /// The number of statements that wait for a lock of the table.
    pub async fn waiting_for_locks(&self) -> i64 {
        let waiting = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND state LIKE 'Waiting for table%'",
            self.name
        );
        self.int(&waiting).await
    }

    /// Every row with all columns that do not depend on the time of insertion.
    pub async fn rows_without_times(&self) -> Vec<String> {
        let sql = "SELECT JSON_ARRAY(event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, \
            content_type, schema_version, payload, HEX(payload_bytes), headers, status, attempts, deferrals, \
            lost_leases, replays, parked, progress, created_at, done_at, last_error, locked_by, locked_at, \
            lease_token, settlement) FROM outbox_event ORDER BY event_id";
        let rows = sqlx::raw_sql(sql).fetch_all(&self.pool).await.expect("rows");
        rows.iter().map(|row| row.get_unchecked(0)).collect()
    }
}

/// Another database with an outbox of the same name and the same recorded age.
pub struct DatabaseCopy {
    pub pool: Pool,
    db: Db,
}

impl DatabaseCopy {
    pub async fn of(db: &Db) -> Self {
        let other = Db::with_pool(1).await;
        let born = db.text("SELECT applied_at FROM outbox_event_schema").await.expect("a time");
        other.execute(&format!("UPDATE outbox_event_schema SET applied_at = '{born}'")).await;
        Self { pool: other.pool.clone(), db: other }
    }

    pub async fn close(self) {
        self.db.close().await;
    }
}

/// A login for one test, with all rights.
pub struct Login {
    pub name: String,
    pub options: MySqlConnectOptions,
}

impl Login {
    pub async fn new(password: &str) -> Self {
        Self::create(password, "").await
    }

    /// A login that is limited to one connection.
    pub async fn with_one_connection() -> Self {
        Self::with_connections(1).await
    }

    pub async fn with_connections(connections: u32) -> Self {
        Self::create("", &format!("WITH MAX_USER_CONNECTIONS {connections}")).await
    }

    async fn create(password: &str, limits: &str) -> Self {
        let name = new_user_name();
        administrate(&format!("CREATE USER {name}@'%' IDENTIFIED BY '{password}' {limits}")).await;
        administrate(&format!("GRANT ALL ON *.* TO {name}@'%'")).await;
        let options = server().username(&name);
        // The driver distinguishes an empty password from none.
        let options = if password.is_empty() { options } else { options.password(password) };
        Self { options, name }
    }

    pub async fn end_sessions(&self) {
        kill_connections(&format!("user = '{}'", self.name)).await;
    }

    pub async fn remove(self) {
        drop_user(&self.name).await;
    }
}

/// A login with a password.
pub async fn login_with_a_password() -> MySqlConnectOptions {
    administrate("CREATE USER IF NOT EXISTS with_password@'%' IDENTIFIED BY 'the right one'").await;
    server().username("with_password")
}

/// The same with a setting that the server refuses.
pub fn with_bad_setting(options: MySqlConnectOptions) -> MySqlConnectOptions {
    options.charset("no_such_charset")
}

/// Logins to a read-only server that the test has started.
pub struct ReadOnlyServer {
    own: OwnServer,
}

impl ReadOnlyServer {
    pub async fn new() -> Self {
        let own = OwnServer::start().await;
        let mut root = MySqlConnection::connect_with(&options_of(&own)).await.expect("a connection");
        // A user with all rights may write on a read-only server.
        run(&mut root, "CREATE USER relay@'%'; GRANT ALL ON shop.* TO relay@'%'").await.expect("a user");
        let server = Self { own };
        server.with_outbox().migrate().connect().await.expect("an outbox").close().await;
        run(&mut root, "SET GLOBAL read_only = ON").await.expect("it only reads");
        server
    }

    fn builder(&self, table: &str) -> StoreBuilder {
        let options = options_of(&self.own).username("relay");
        MySqlStore::builder(&options).table(table.parse().expect("a good name"))
    }

    pub fn with_outbox(&self) -> StoreBuilder {
        self.builder("ready")
    }

    pub fn without_outbox(&self) -> StoreBuilder {
        self.builder("fresh")
    }

    /// The server ends when this value is dropped.
    pub async fn remove(self) {}
}

/// A connection outside the databases of the tests.
pub async fn administrator() -> MySqlConnection {
    MySqlConnection::connect_with(&server()).await.expect("a connection")
}

pub async fn administrate(sql: &str) {
    let done = run(&mut administrator().await, sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The rows of a statement of an administrator, one line each.
pub async fn lines(sql: &str) -> Vec<String> {
    texts_of(&mut administrator().await, sql).await
}

/// A new user name. The server allows at most 32 characters.
pub fn new_user_name() -> String {
    format!("u{:016x}", fastrand::u64(..))
}

pub async fn drop_user(name: &str) {
    administrate(&format!("DROP USER {name}@'%'")).await;
}

/// Ends the sessions in the process list that meet this condition. Returns their number.
pub async fn kill_connections(condition: &str) -> usize {
    let sql = format!("SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE {condition}");
    let ids = lines(&sql).await;
    for id in &ids {
        // The session may have ended already.
        let _ = run(&mut administrator().await, &format!("KILL CONNECTION {id}")).await;
    }
    ids.len()
}

/// The time in a column plus this many seconds.
pub fn plus_seconds_sql(time: &str, seconds: i32) -> String {
    format!("{time} + INTERVAL '{seconds}' SECOND")
}

pub fn drop_index_sql(name: &str) -> String {
    format!("ALTER TABLE outbox_event DROP INDEX {name}")
}

/// True if the connection is outside a transaction: a savepoint then disappears immediately.
pub async fn is_outside_a_transaction(connection: &mut MySqlConnection) -> bool {
    run(connection, "SAVEPOINT probe; RELEASE SAVEPOINT probe").await.is_err()
}

/// True if the server is MariaDB.
pub async fn is_mariadb() -> bool {
    lines("SELECT VERSION()").await[0].contains("MariaDB")
}
