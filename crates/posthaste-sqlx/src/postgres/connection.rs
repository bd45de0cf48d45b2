//! The store's own connections to PostgreSQL, and the meaning of their errors.

use std::sync::Arc;

use posthaste::StoreError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Postgres};

use crate::OpenError;
use crate::login::LoginOptions;
use crate::sql::Sql;
use crate::store::{Connections as _, failed};
use crate::store_pool::{StorePool, is_lost};

/// Settings of the connections that claim and settle. If a crash of the server loses a settlement, the event is
/// delivered once more, so a settlement does not wait for the disk. A plan made while the table was empty stays cached
/// when a backlog has grown, so no plan may read or sort the whole table.
const ENGINE_SETTINGS: [(&str, &str); 7] = [
    ("synchronous_commit", "off"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_sort", "off"),
    ("statement_timeout", "30s"),
    ("idle_in_transaction_session_timeout", "10s"),
];

/// Most of these settings for one transaction only, because PgBouncer lends its server connections to other clients.
const ENGINE_BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL jit = off; \
     SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; \
     SET LOCAL statement_timeout = '30s'";

/// Includes rights on single columns, because the grants of a writer are on columns.
const RIGHTS: &str = r#"SELECT has_any_column_privilege('"{table}"', 'INSERT')
  OR has_any_column_privilege('"{table}"', 'UPDATE')"#;

pub(super) const BEGIN: &str = "BEGIN";

/// Ends a slow query of an operator: by then its caller has given up. The HTTP API waits for ten seconds.
pub(super) const VIEWER_BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '15s'";

/// Ends a change of an operator that is blocked, by a lock for example.
pub(super) const OPERATOR_BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '30s'";

/// Lets the server end a statement whose client has gone away: a claim that continued would lease rows that no process
/// delivers. PostgreSQL 13 has no such setting.
const CLIENT_CHECK_INTERVAL: &str = "SELECT set_config('client_connection_check_interval', '1s', false)
  WHERE current_setting('server_version_num')::int4 >= 140000";

/// What is between the store and its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConnectionPath {
    #[default]
    Direct,
    /// A PgBouncer that may run every transaction on another server connection.
    PgBouncer,
}

pub(crate) type Login = crate::login::Login<PgConnectOptions>;

impl LoginOptions for PgConnectOptions {
    fn user(&self) -> &str {
        self.get_username()
    }

    fn server(&self) -> String {
        server(self)
    }
}

/// Separate connections for the engine, and, with durable commits, for queries and for changes of operators: a pause
/// must not wait for queries about a large table.
#[derive(Debug)]
pub(crate) struct Connections {
    engine: StorePool<Postgres>,
    pub(super) viewer: StorePool<Postgres>,
    pub(super) operator: StorePool<Postgres>,
    path: ConnectionPath,
    server: Arc<str>,
}

impl Connections {
    pub(super) fn new(options: &PgConnectOptions, path: ConnectionPath) -> Self {
        let engine = named(options, path, "posthaste engine");
        // One to claim, one to settle, one to renew leases, one for everything else.
        let engine = match path {
            ConnectionPath::Direct => {
                StorePool::new(engine.options(ENGINE_SETTINGS), 4).with_settings(CLIENT_CHECK_INTERVAL)
            }
            ConnectionPath::PgBouncer => StorePool::new(engine, 4),
        };
        let operator = named(options, path, "posthaste");
        Self {
            engine,
            viewer: StorePool::new(operator.clone(), 2),
            operator: StorePool::new(operator, 2),
            path,
            server: server(options).into(),
        }
    }

    /// Refuses a user who may neither write events nor process them, when the store is opened and not at its first
    /// call.
    pub(super) async fn check_rights(&self, sql: &Sql) -> Result<(), OpenError> {
        let rights = async |connection: &mut PgConnection| {
            sql.scalar::<Postgres, bool>(RIGHTS).fetch_one(connection).await
        };
        match self.engine.in_transaction(BEGIN, rights).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpenError::OnlyReads { server: self.server.to_string() }),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Runs one statement for the engine.
    pub(super) async fn engine<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        match self.path {
            ConnectionPath::Direct => self.engine.with(work).await.map_err(|error| self.failed(error)),
            ConnectionPath::PgBouncer => self.engine_in_transaction(work).await,
        }
    }

    /// Runs statements for the engine in one transaction.
    pub(super) async fn engine_in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let begin = match self.path {
            ConnectionPath::Direct => BEGIN,
            ConnectionPath::PgBouncer => ENGINE_BEGIN,
        };
        self.engine.in_transaction(begin, work).await.map_err(|error| self.failed(error))
    }

    /// Runs work on two connections that are open at the same time. The second one is opened for this call alone, so no
    /// call waits for a second connection while it holds one.
    pub(super) async fn with_two<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection, &mut PgConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let mut another = self.viewer.open_another().await?;
        let result = self.viewer.with(async |connection| work(connection, &mut another).await).await;
        // The work is done, and an error of closing changes nothing.
        let _ = another.close().await;
        result
    }

    pub(super) fn path(&self) -> ConnectionPath {
        self.path
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        failed::<Postgres>(self, error)
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

/// The options of the user with an application name for administrators, and without the logging of statements.
pub(crate) fn named(options: &PgConnectOptions, path: ConnectionPath, name: &str) -> PgConnectOptions {
    let name = match options.get_application_name() {
        Some(service) => format!("{service}: {name}"),
        None => name.to_owned(),
    };
    let options = options.clone().application_name(&name).disable_statement_logging();
    match path {
        ConnectionPath::Direct => options,
        // PgBouncer refuses a session whose start-up parameters it does not know.
        ConnectionPath::PgBouncer => options.extra_float_digits(None),
    }
}

/// The server and database in words, without the password.
pub(crate) fn server(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{} on {}", database, socket.display()),
        None => format!("{database} on {}:{}", options.get_host(), options.get_port()),
    }
}

/// SQLSTATE codes.
mod code {
    pub(super) const CANNOT_CONNECT_NOW: &str = "57P03";
    pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub(super) const INVALID_AUTHORIZATION: &str = "28000";
    pub(super) const INVALID_PASSWORD: &str = "28P01";
    /// A prepared statement exists already, or does not exist: another client used the server connection in between.
    pub(super) const PREPARED_TWICE: &str = "42P05";
    pub(super) const NOT_PREPARED: &str = "26000";
    pub(super) const NO_DATABASE: &str = "3D000";
    pub(super) const PROTOCOL_VIOLATION: &str = "08P01";
    pub(super) const READ_ONLY: &str = "25006";
    pub(super) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(super) const UNDEFINED_TABLE: &str = "42P01";
}

pub(crate) fn explain(error: sqlx::Error, server: &str) -> OpenError {
    let server = || server.to_owned();
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .map(std::borrow::Cow::into_owned);
    match code.as_deref() {
        Some(code::INVALID_PASSWORD | code::INVALID_AUTHORIZATION) => {
            OpenError::Refused { server: server(), source: error }
        }
        Some(code::NO_DATABASE) => OpenError::NoDatabase { server: server(), source: error },
        Some(code::TOO_MANY_CONNECTIONS) => OpenError::NoConnectionLeft { server: server(), source: error },
        // A server knows every parameter that the driver sends. A pooler refuses those that it does not know.
        Some(code::PROTOCOL_VIOLATION) if error.to_string().contains("startup parameter") => {
            OpenError::Pooler { server: server(), source: error }
        }
        Some(code::PREPARED_TWICE | code::NOT_PREPARED) => {
            OpenError::Pooler { server: server(), source: error }
        }
        Some(code::READ_ONLY) => OpenError::ReadOnlyServer { server: server() },
        Some(code::INSUFFICIENT_PRIVILEGE) => OpenError::NotAllowed { server: server(), source: error },
        Some(code::CANNOT_CONNECT_NOW) => OpenError::Unreachable { server: server(), source: error },
        Some(code::UNDEFINED_TABLE) => OpenError::TableGone { server: server(), source: error },
        None if is_lost(&error) => OpenError::Unreachable { server: server(), source: error },
        _ => OpenError::Database(error),
    }
}
