//! The store's own connections, and what their errors mean.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::StoreError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{ConnectOptions as _, MySql, MySqlConnection};

use crate::OpenError;
use crate::store::failed;
use crate::store_pool::{StorePool, is_lost};

/// READ COMMITTED locks the rows that a statement finds, and not the gaps between them: under the default a
/// claim makes every INSERT of the service wait. Nobody waits for a lock as long as the server's default of
/// fifty seconds, or for a table as long as its default of a day. MariaDB ends a transaction whose process has
/// stood still for five seconds, or its rows would stay locked, and be stepped over by every other node, until it
/// goes on; MySQL cannot. The SQL mode is strict, as MySQL's own, but takes rows as they are: a date of zeros
/// that some program has written can be archived.
macro_rules! settings {
    () => {
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 5, SESSION lock_wait_timeout = 5,
  SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'
  /*M!100300 , SESSION idle_transaction_timeout = 5 */"
    };
}

pub(crate) const SETTINGS: &str = settings!();

/// A question is ended after fifteen seconds, when whoever asked it has given up: it would keep its connection,
/// and the next one would wait. Each of the two servers reads its own comment.
const VIEWER_SETTINGS: &str = concat!(
    settings!(),
    " /*M!100100 , SESSION max_statement_time = 15 */ /*!80000 , SESSION max_execution_time = 15000 */"
);

pub(super) const BEGIN: &str = "START TRANSACTION";

/// How often a call is tried that others stand in the way of.
pub(super) const MAX_TRIES: u32 = 5;

/// Where to log in, and as whom. Its password is never shown, as that of the driver's own type is.
#[derive(Clone)]
pub(crate) struct Login(pub(crate) MySqlConnectOptions);

impl Deref for Login {
    type Target = MySqlConnectOptions;
    fn deref(&self) -> &MySqlConnectOptions {
        &self.0
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.get_username(), server(self))
    }
}

/// A few connections for the engine, a few for those who look, and one for operators' changes: a slow question
/// never keeps anybody from pausing a route.
#[derive(Debug)]
pub(crate) struct Connections {
    engine: StorePool<MySql>,
    pub(super) viewer: StorePool<MySql>,
    pub(super) operator: StorePool<MySql>,
    server: Arc<str>,
    /// How often a call was repeated because others stood in its way.
    repeated: AtomicU64,
}

impl Connections {
    pub(crate) fn new(options: &MySqlConnectOptions) -> Self {
        let pool = |max_connections, settings| {
            let options = options.clone().disable_statement_logging();
            StorePool::new(options, max_connections).with_settings(settings).unharmed_by(is_contention)
        };
        Self {
            // One to claim, one to settle, one to renew, one for the rest.
            engine: pool(4, SETTINGS),
            viewer: pool(2, VIEWER_SETTINGS),
            operator: pool(1, SETTINGS),
            server: server(options).into(),
            repeated: AtomicU64::new(0),
        }
    }

    /// Runs one statement for the engine, or several that need not be one.
    pub(crate) async fn engine<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            match self.engine.with(work.clone()).await {
                Err(error) if self.wait_before_retry(&error, tries).await => tries += 1,
                answer => return answer.map_err(|error| self.failed(error)),
            }
        }
    }

    /// Runs several statements for the engine, all of them or none.
    pub(crate) async fn engine_in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        self.in_transaction(&self.engine, work).await
    }

    /// The same for a foreign table's viewers and operators.
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
                answer => return answer.map_err(|error| self.failed(error)),
            }
        }
    }

    /// Waits, and returns whether to try again what a deadlock or a lock has ended: the server has rolled it back.
    pub(super) async fn wait_before_retry(&self, error: &sqlx::Error, tries: u32) -> bool {
        let is_retried = is_contention(error) && tries < MAX_TRIES;
        if is_retried {
            self.wait(tries).await;
        }
        is_retried
    }

    /// Waits before the next try. Between 5 and 10 ms, then twice as long each time: those who collided must not meet
    /// again.
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

/// The server and database as a person would name them, without the password.
pub(crate) fn server(options: &MySqlConnectOptions) -> String {
    let database = options.get_database().unwrap_or("(no database)");
    match options.get_socket() {
        Some(socket) => format!("{} on {}", database, socket.display()),
        None => format!("{database} on {}:{}", options.get_host(), options.get_port()),
    }
}

/// The server's numbers of errors.
mod code {
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const LOCK_TIMEOUT: u16 = 1205;
    /// A lock that was asked for with NOWAIT, or that another node of a cluster won.
    pub(super) const LOCKED: u16 = 3572;
    pub(super) const ACCESS_DENIED: u16 = 1045;
    pub(super) const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
    pub(super) const NO_DATABASE: u16 = 1049;
    pub(super) const NO_DATABASE_SELECTED: u16 = 1046;
    pub(super) const NO_TABLE: u16 = 1146;
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
    /// The same, if it was the user that was given a limit.
    pub(super) const USER_LIMIT_REACHED: u16 = 1226;
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const COMMAND_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    /// A statement that took too long, on MariaDB.
    pub(super) const STATEMENT_TIMEOUT: u16 = 1969;
    /// The same on MySQL.
    pub(super) const QUERY_TIMEOUT: u16 = 3024;
    pub(super) const READ_ONLY: u16 = 1290;
    pub(super) const READ_ONLY_MODE: u16 = 1836;
}

pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// Whether the server ended a statement for the sake of another transaction.
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

    /// The server keeps a transaction that a lock has ended half way, and all that it has locked.
    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn transaction_that_met_a_lock_gives_its_own_locks_back() {
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
    async fn questions_are_ended_by_the_server() {
        let (store, mut other, database) = open("questions").await;
        let limit = match store.0.state.flavour {
            Flavour::MariaDb => "SELECT CAST(@@SESSION.max_statement_time * 1000 AS SIGNED)",
            _ => "SELECT CAST(@@SESSION.max_execution_time AS SIGNED)",
        };
        let read = async |connection: &mut MySqlConnection| {
            store.sql().scalar::<MySql, i64>(limit).fetch_one(connection).await
        };
        assert_eq!(store.connections().viewer(read).await.expect("an answer"), 15_000);
        assert_eq!(store.connections().operator(read).await.expect("an answer"), 0, "changes are not");
        run(&mut other, store.sql(), &format!("DROP DATABASE {database}")).await;
    }

    /// However long questions take, and however many of them there are.
    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn changes_do_not_wait_for_questions() {
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
            answer = change => assert_eq!(answer.expect("a connection of its own"), 1),
        }
        run(&mut other, store.sql(), &format!("DROP DATABASE {database}")).await;
    }
}
