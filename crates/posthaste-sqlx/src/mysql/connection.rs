//! The store's own connections to MySQL, and the meaning of their errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::StoreError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{ConnectOptions as _, MySql, MySqlConnection};

use crate::OpenError;
use crate::login::LoginOptions;
use crate::store::failed;
use crate::store_pool::{StorePool, is_lost};

/// Settings of every session.
///
/// READ COMMITTED locks the rows that a statement finds and not the gaps between them; under the default level a claim
/// would block every INSERT of the service. The lock timeouts replace the defaults of fifty seconds for a row and a day
/// for a table. MariaDB also ends a transaction that was idle for five seconds: if a process is suspended, its rows
/// would stay locked, and be skipped by all nodes, until it continues. MySQL has no such setting. The SQL mode is
/// strict like MySQL's default, but without the checks of dates, so that a date of zeros that another program has
/// written can be archived.
macro_rules! settings {
    () => {
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 5, SESSION lock_wait_timeout = 5,
  SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'
  /*M!100300 , SESSION idle_transaction_timeout = 5 */"
    };
}

pub(crate) const SETTINGS: &str = settings!();

/// Queries of operators end after fifteen seconds: by then their caller has given up. Otherwise they would keep their
/// connection, and the next query would wait for it. Each of the two servers executes only its own version comment.
const VIEWER_SETTINGS: &str = concat!(
    settings!(),
    " /*M!100100 , SESSION max_statement_time = 15 */ /*!80000 , SESSION max_execution_time = 15000 */"
);

pub(super) const BEGIN: &str = "START TRANSACTION";

/// The number of tries of a call that ends in a deadlock or a lock timeout.
pub(super) const MAX_TRIES: u32 = 5;

pub(crate) type Login = crate::login::Login<MySqlConnectOptions>;

impl LoginOptions for MySqlConnectOptions {
    fn user(&self) -> &str {
        self.get_username()
    }

    fn server(&self) -> String {
        server(self)
    }
}

/// Separate connections for the engine, for queries of operators, and for their changes: a slow query must not keep an
/// operator from pausing a route.
#[derive(Debug)]
pub(crate) struct Connections {
    engine: StorePool<MySql>,
    pub(super) viewer: StorePool<MySql>,
    pub(super) operator: StorePool<MySql>,
    /// The server and database in words, for errors.
    server: Arc<str>,
    /// The number of calls that were repeated because of a deadlock or a lock timeout.
    repeated: AtomicU64,
}

impl Connections {
    pub(crate) fn new(options: &MySqlConnectOptions) -> Self {
        let pool = |max_connections, settings| {
            let options = options.clone().disable_statement_logging();
            StorePool::new(options, max_connections).with_settings(settings).unharmed_by(is_contention)
        };
        Self {
            // One to claim, one to settle, one to renew leases, one for everything else.
            engine: pool(4, SETTINGS),
            viewer: pool(2, VIEWER_SETTINGS),
            operator: pool(1, SETTINGS),
            server: server(options).into(),
            repeated: AtomicU64::new(0),
        }
    }

    /// Runs statements for the engine without a transaction.
    pub(crate) async fn engine<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            match self.engine.with(work.clone()).await {
                Err(error) if self.wait_before_retry(&error, tries).await => tries += 1,
                result => return result.map_err(|error| self.failed(error)),
            }
        }
    }

    /// Runs statements for the engine in one transaction.
    pub(crate) async fn engine_in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        self.in_transaction(&self.engine, work).await
    }

    /// Runs statements in one transaction, for the operators of a foreign table.
    pub(crate) async fn viewer<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        self.in_transaction(&self.viewer, work).await
    }

    pub(crate) async fn operator<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        self.in_transaction(&self.operator, work).await
    }

    async fn in_transaction<T>(
        &self,
        pool: &StorePool<MySql>,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            match pool.in_transaction(BEGIN, work.clone()).await {
                Err(error) if self.wait_before_retry(&error, tries).await => tries += 1,
                result => return result.map_err(|error| self.failed(error)),
            }
        }
    }

    /// After a deadlock or a lock timeout, waits and returns true: the server has rolled back, and the call can be
    /// repeated.
    pub(super) async fn wait_before_retry(&self, error: &sqlx::Error, tries: u32) -> bool {
        let is_retried = is_contention(error) && tries < MAX_TRIES;
        if is_retried {
            self.wait(tries).await;
        }
        is_retried
    }

    /// Waits before the next try: 5 to 10 ms, and twice as long after each further try. The delay is random, so that
    /// two calls that collided do not collide again.
    pub(super) async fn wait(&self, tries: u32) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
        let least = Duration::from_millis(5) * 2_u32.pow(tries - 1);
        tokio::time::sleep(least + least.mul_f64(fastrand::f64())).await;
    }

    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self, error: sqlx::Error) -> StoreError {
        failed::<MySql>(self, error)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }
}

impl crate::store::Connections for Connections {
    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, &self.server)
    }

    async fn close(&self) {
        self.engine.close().await;
        self.viewer.close().await;
        self.operator.close().await;
    }
}

/// The server and database in words, without the password.
pub(crate) fn server(options: &MySqlConnectOptions) -> String {
    let database = options.get_database().unwrap_or("(no database)");
    match options.get_socket() {
        Some(socket) => format!("{} on {}", database, socket.display()),
        None => format!("{database} on {}:{}", options.get_host(), options.get_port()),
    }
}

/// Error numbers of the server.
mod code {
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const LOCK_TIMEOUT: u16 = 1205;
    /// A lock was refused with NOWAIT, or another node of a cluster won the row.
    pub(super) const LOCKED: u16 = 3572;
    pub(super) const ACCESS_DENIED: u16 = 1045;
    pub(super) const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
    pub(super) const NO_DATABASE: u16 = 1049;
    pub(super) const NO_DATABASE_SELECTED: u16 = 1046;
    pub(super) const NO_TABLE: u16 = 1146;
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
    /// The limit of this user was reached.
    pub(super) const USER_LIMIT_REACHED: u16 = 1226;
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const COMMAND_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    /// A statement timeout on MariaDB.
    pub(super) const STATEMENT_TIMEOUT: u16 = 1969;
    /// A statement timeout on MySQL.
    pub(super) const QUERY_TIMEOUT: u16 = 3024;
    pub(super) const READ_ONLY: u16 = 1290;
    pub(super) const READ_ONLY_MODE: u16 = 1836;
}

pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// True if the server ended a statement in favour of another transaction.
pub(super) fn is_contention(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(code::DEADLOCK | code::LOCK_TIMEOUT | code::LOCKED))
}

pub(crate) fn explain(error: sqlx::Error, server: &str) -> OpenError {
    let server = || server.to_owned();
    match number(&error) {
        Some(code::ACCESS_DENIED | code::ACCESS_DENIED_NO_PASSWORD) => {
            OpenError::Refused { server: server(), source: error }
        }
        Some(code::NO_DATABASE | code::NO_DATABASE_SELECTED) => {
            OpenError::NoDatabase { server: server(), source: error }
        }
        Some(code::TOO_MANY_CONNECTIONS | code::TOO_MANY_USER_CONNECTIONS | code::USER_LIMIT_REACHED) => {
            OpenError::NoConnectionLeft { server: server(), source: error }
        }
        Some(code::READ_ONLY | code::READ_ONLY_MODE) => OpenError::ReadOnlyServer { server: server() },
        Some(code::DATABASE_DENIED | code::COMMAND_DENIED | code::COLUMN_DENIED) => {
            OpenError::NotAllowed { server: server(), source: error }
        }
        Some(code::STATEMENT_TIMEOUT | code::QUERY_TIMEOUT) => {
            OpenError::TookTooLong { server: server(), source: error }
        }
        Some(code::NO_TABLE) => OpenError::TableGone { server: server(), source: error },
        None if is_lost(&error) => OpenError::Unreachable { server: server(), source: error },
        _ => OpenError::Database(error),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_sql_writer::mysql::Flavour;

    use super::super::plan_tests::{open, run};
    use super::*;

    /// After a lock timeout the server keeps the transaction open, with all its locks.
    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn transaction_with_a_lock_timeout_releases_its_locks() {
        let (store, mut other, database) = open("locks").await;
        let sql = store.sql();
        let rows =
            "INSERT INTO `{table}` (event_id, event_type, payload) VALUES ('a', 'T', '1'), ('b', 'T', '1')";
        run(&mut other, sql, rows).await;
        run(&mut other, sql, "START TRANSACTION").await;
        run(&mut other, sql, "SELECT 1 FROM `{table}` WHERE event_id = 'b' FOR UPDATE").await;
        let work = async |connection: &mut MySqlConnection| {
            for id in ["a", "b"] {
                let lock = "SELECT 1 FROM `{table}` WHERE event_id = ? FOR UPDATE NOWAIT";
                sql.query::<MySql>(lock).bind(id).fetch_all(&mut *connection).await?;
            }
            Ok(())
        };
        let met = store.connections().engine.in_transaction(BEGIN, work).await;
        assert!(met.as_ref().is_err_and(is_contention), "{met:?}");
        run(&mut other, sql, "SELECT 1 FROM `{table}` WHERE event_id = 'a' FOR UPDATE NOWAIT").await;
        run(&mut other, sql, &format!("DROP DATABASE {database}")).await;
    }

    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn slow_queries_are_cancelled_by_the_server() {
        let (store, mut other, database) = open("questions").await;
        let limit = match store.0.state.flavour {
            Flavour::MariaDb => "SELECT CAST(@@SESSION.max_statement_time * 1000 AS SIGNED)",
            _ => "SELECT CAST(@@SESSION.max_execution_time AS SIGNED)",
        };
        let read = async |connection: &mut MySqlConnection| {
            store.sql().scalar::<MySql, i64>(limit).fetch_one(connection).await
        };
        assert_eq!(store.connections().viewer(read).await.expect("a result"), 15_000);
        assert_eq!(store.connections().operator(read).await.expect("a result"), 0, "changes are not");
        run(&mut other, store.sql(), &format!("DROP DATABASE {database}")).await;
    }

    /// Queries may be slow and numerous.
    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn changes_do_not_wait_for_queries() {
        let (store, mut other, database) = open("changes").await;
        let asked = tokio::sync::Semaphore::new(0);
        let question = async |_: &mut MySqlConnection| {
            asked.add_permits(1);
            std::future::pending::<sqlx::Result<()>>().await
        };
        let change = async {
            asked.acquire_many(2).await.expect("it stays open").forget();
            let one = async |connection: &mut MySqlConnection| {
                store.sql().scalar::<MySql, i64>("SELECT CAST(1 AS SIGNED)").fetch_one(connection).await
            };
            store.connections().operator(one).await
        };
        tokio::select! {
            _ = store.connections().viewer(question) => unreachable!("it waits for ever"),
            _ = store.connections().viewer(question) => unreachable!("it waits for ever"),
            result = change => assert_eq!(result.expect("a connection of its own"), 1),
        }
        run(&mut other, store.sql(), &format!("DROP DATABASE {database}")).await;
    }
}
