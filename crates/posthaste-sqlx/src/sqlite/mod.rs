//! The SQLite store: an outbox in the service's own database file.
//!
//! ```
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::SqliteStore;
//! use sqlx::SqlitePool;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = SqlitePool::connect("sqlite::memory:").await?;
//! sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&pool).await?;
//!
//! let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = store.writer(&outbox);
//!
//! let mut tx = writer.begin(&pool).await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (17)").execute(&mut *tx).await?;
//! tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": 17 }))?).await?;
//! tx.commit().await?;
//! # outbox.idle().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The file is turned to WAL. The service's own transactions that write should begin with
//! `BEGIN IMMEDIATE`, as [`SqliteWriter::begin`] does: a transaction that reads first and writes later
//! fails at once, whatever its busy timeout, when another connection has written in between.

mod admin;
mod backlog;
mod claim;
mod connection;
mod diagnose;
mod filter;
mod insert;
mod lease;
mod migrate;
#[cfg(test)]
mod plan_tests;
mod purge;
mod row;
mod settle;
mod stats;
mod store;
mod tx;
mod value;
mod wake_up;
mod write_queue;
mod writer;

use std::sync::{Arc, OnceLock};

use posthaste::store::Notifier;
use posthaste::writer::NewRow;
use posthaste::{Outbox, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::sqlite::{DatabaseFile, Statements};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqliteConnection};

pub use migrate::SqliteMigrations;

use crate::parked_routes_cache::ParkedNames;
use crate::server_state_cache::ServerStateCache;
use crate::sql::Sql;
use crate::{OpenError, Savepoint, TableName, Tx, Writer};
use connection::{Connections, engine_options, reader_options};

/// Writes events in transactions of a [`SqlitePool`](sqlx::SqlitePool); made by [`SqliteStore::writer`].
pub type SqliteWriter = Writer<Sqlite>;

/// A transaction of a [`SqliteWriter`]. Derefs to the [`SqliteConnection`].
pub type SqliteTx = Tx<Sqlite>;

/// A savepoint in a [`SqliteTx`] or in another savepoint. Derefs to the [`SqliteConnection`].
pub type SqliteSavepoint<'a> = Savepoint<'a, Sqlite>;

/// An outbox in a SQLite database. Cheap to clone.
///
/// It opens connections of its own, one that writes and up to two that read, so that a pool of the
/// service that is exhausted never stops it, nor the reverse. Several processes may share a file.
#[derive(Clone, Debug)]
pub struct SqliteStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: Connections,
    sql: Sql,
    statements: Arc<Statements>,
    server_state: ServerStateCache,
    parked_names: ParkedNames,
    wake: OnceLock<Notifier>,
}

impl SqliteStore {
    /// Opens the outbox `outbox_event` in the database that these options, a pool's for example, lead
    /// to. A schema that is missing, older or newer is an error that says what to do; it changes nothing
    /// but the journal, which becomes WAL.
    pub async fn connect(options: &SqliteConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// The same with another table name, or with migrations.
    pub fn builder(options: &SqliteConnectOptions) -> SqliteStoreBuilder {
        SqliteStoreBuilder {
            options: options.clone(),
            table: TableName::default(),
            migrate: false,
            read_only: false,
        }
    }

    /// The Writer on sqlx. Made once; cheap to clone.
    pub fn writer(&self, outbox: &Outbox) -> SqliteWriter {
        let state = writer::WriterState::new(self.connections().write_queue.clone());
        SqliteWriter { context: self.writer_context(outbox), state }
    }

    /// What Writers of other drivers are made of.
    pub fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::Sqlite> {
        WriterContext::new(outbox.writer_core(), Arc::clone(&self.0.statements))
    }

    /// The INSERT alone, for the conformance suite: no hooks, no limits, no receipt. Services use a
    /// [`SqliteWriter`].
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut SqliteConnection,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        insert::insert(&self.0.statements, connection, rows).await.map_err(|error| self.failed(error))
    }

    /// Closes the store's connections. Calls after it fail.
    pub async fn close(&self) {
        self.connections().close().await;
    }

    async fn new(connections: Connections, sql: Sql) -> Result<Self, OpenError> {
        let statements = Statements::new(sql.table_ref());
        let found = match connections.reader().await {
            Ok(mut connection) => writer::identify(&statements, &mut connection).await,
            Err(error) => Err(error),
        };
        let database = DatabaseFile::new(found.map_err(|error| connections.explain(error))?);
        Ok(Self(Arc::new(Inner {
            connections,
            sql,
            statements: Arc::new(statements.bound_to(database)),
            server_state: ServerStateCache::default(),
            parked_names: ParkedNames::default(),
            wake: OnceLock::new(),
        })))
    }

    fn connections(&self) -> &Connections {
        &self.0.connections
    }

    fn sql(&self) -> &Sql {
        &self.0.sql
    }

    fn forget_cached_state(&self) {
        self.0.server_state.forget();
        self.0.parked_names.forget();
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        self.connections().failed(error)
    }

    /// Starts to watch for commits when somebody asks for the first time.
    fn watch(&self) -> Option<Notifier> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let wake = self.0.wake.get_or_init(|| {
            let wake = Notifier::new();
            runtime.spawn(wake_up::watch(Arc::downgrade(&self.0), wake.clone()));
            wake
        });
        Some(wake.clone())
    }

    /// Our own connection made rows due, which the watch does not count.
    fn notify_due(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
    }
}

/// Opens a [`SqliteStore`].
#[derive(Clone, Debug)]
#[must_use = "call `connect`"]
pub struct SqliteStoreBuilder {
    options: SqliteConnectOptions,
    table: TableName,
    migrate: bool,
    read_only: bool,
}

impl SqliteStoreBuilder {
    /// The outbox table. Default: `outbox_event`. Several outboxes live in one file side by side.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Applies missing migrations in [`connect`](Self::connect). Default: a schema that is not current
    /// is an error.
    pub fn migrate(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Accepts a database that cannot be written, and leaves its journal as it is; calls that write
    /// fail there. For those who only look. Default: such a database is refused at once.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The migrations of this outbox, to check, print or apply by themselves.
    pub fn migrations(&self) -> SqliteMigrations {
        SqliteMigrations::new(self.options.clone(), Sql::new(self.table.clone()))
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<SqliteStore, OpenError> {
        let migrations = self.migrations();
        let sql = Sql::new(self.table);
        // A database in memory is gone with its last connection, so it is opened before it is migrated.
        // A file without an outbox is left as it is.
        if self.migrate {
            let connections = Connections::open(engine_options(&self.options)).await?;
            migrations.apply().await?;
            connections.check_writable(&sql).await?;
            return SqliteStore::new(connections, sql).await;
        }
        migrations.expect_current().await?;
        if self.read_only {
            return SqliteStore::new(Connections::open(reader_options(&self.options)).await?, sql).await;
        }
        let connections = Connections::open(engine_options(&self.options)).await?;
        connections.check_writable(&sql).await?;
        SqliteStore::new(connections, sql).await
    }
}
