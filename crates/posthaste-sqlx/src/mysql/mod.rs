//! The MySQL and MariaDB store: an outbox in the service's own database, from MariaDB 10.6 and MySQL
//! 8.0.13 on.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::MySqlStore;
//! use sqlx::MySqlPool;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = MySqlPool::connect("mysql://shop@localhost/shop").await?;
//!
//! let store = MySqlStore::builder(&pool.connect_options()).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = store.writer(&outbox);
//!
//! let mut tx = writer.begin(&pool).await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (17)").execute(&mut *tx).await?;
//! tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": 17 }))?).await?;
//! tx.commit().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod admin;
mod backlog;
mod claim;
pub(crate) mod connection;
mod diagnose;
mod filter;
mod growing_steps;
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
pub(crate) mod value;
mod wake_up;
mod writer;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use posthaste::store::Notifier;
use posthaste::writer::NewRow;
use posthaste::{Outbox, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{Flavour, Statements};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{MySql, MySqlConnection};
use tokio_util::sync::CancellationToken;

pub use migrate::MySqlMigrations;

use crate::claim_floor::ClaimFloor;
use crate::parked_routes_cache::ParkedNames;
use crate::server_state_cache::ServerStateCache;
use crate::settle_throttle::SettleThrottle;
use crate::sql::Sql;
use crate::{OpenError, Savepoint, TableName, Tx, Writer};
use connection::{Connections, Login};

/// Writes events in transactions of a [`MySqlPool`](sqlx::MySqlPool); made by [`MySqlStore::writer`].
pub type MySqlWriter = Writer<MySql>;

/// A transaction of a [`MySqlWriter`]. Derefs to the [`MySqlConnection`].
pub type MySqlTx = Tx<MySql>;

/// A savepoint in a [`MySqlTx`] or in another savepoint. Derefs to the [`MySqlConnection`].
pub type MySqlSavepoint<'a> = Savepoint<'a, MySql>;

/// An outbox in a MySQL or MariaDB database. Cheap to clone.
///
/// It opens a few connections of its own, so that a pool of the service that is exhausted never stops
/// it, nor the reverse. Any number of processes may share a table.
#[derive(Clone, Debug)]
pub struct MySqlStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: Connections,
    sql: Sql,
    statements: Arc<Statements>,
    flavour: Flavour,
    claim_floor: ClaimFloor,
    /// Whether the next claim may meet rows that do not fit together. Nothing is known before the first.
    large_rows: AtomicBool,
    server_state: ServerStateCache,
    settle_throttle: SettleThrottle,
    parked_names: ParkedNames,
    /// The wake-up: notified when there may be something to claim; made when an engine first asks.
    wake: OnceLock<Notifier>,
    /// Cancelled when the store ends, for the task that watches.
    stop: CancellationToken,
}

impl MySqlStore {
    /// Opens the outbox `outbox_event` in the database that these options, a pool's for example, lead to.
    /// A schema that is missing, older or newer is an error that says what to do; it changes nothing.
    pub async fn connect(options: &MySqlConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// The same with another table, or with migrations.
    pub fn builder(options: &MySqlConnectOptions) -> MySqlStoreBuilder {
        MySqlStoreBuilder {
            options: Login(options.clone()),
            table: TableName::default(),
            migrate: false,
            read_only: false,
        }
    }

    /// The Writer on sqlx. Made once; cheap to clone.
    pub fn writer(&self, outbox: &Outbox) -> MySqlWriter {
        MySqlWriter { context: self.writer_context(outbox), state: () }
    }

    /// What the Writers of other drivers are made of.
    pub fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::MySql> {
        WriterContext::new(outbox.writer_core(), Arc::clone(&self.0.statements))
    }

    /// How many calls were repeated so far because a deadlock or somebody's lock had ended them. A few are
    /// nothing to worry about.
    pub fn repeated_calls(&self) -> u64 {
        self.connections().repeated()
    }

    /// The INSERT alone, for the conformance suite: no hooks, no limits, no receipt. Services use a
    /// [`MySqlWriter`].
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut MySqlConnection,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let inserted = insert::insert(&self.0.statements, connection, rows).await;
        inserted.map_err(|error| self.connections().failed(error))
    }

    /// Closes the store's connections. Calls after it fail.
    pub async fn close(&self) {
        self.connections().close().await;
        self.0.stop.cancel();
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

    /// Starts to watch when somebody asks for the first time.
    fn watch(&self) -> Notifier {
        let wake = self.0.wake.get_or_init(|| {
            let wake = Notifier::new();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let (store, stop) = (Arc::downgrade(&self.0), self.0.stop.clone());
                runtime.spawn(wake_up::watch(store, stop, wake.clone()));
            }
            wake
        });
        wake.clone()
    }

    /// Rows became due: this process may have a look. The others find them.
    fn notify_due(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Opens a [`MySqlStore`].
#[derive(Clone, Debug)]
#[must_use = "call `connect`"]
pub struct MySqlStoreBuilder {
    options: Login,
    table: TableName,
    migrate: bool,
    read_only: bool,
}

impl MySqlStoreBuilder {
    /// The outbox table. Default: `outbox_event`. Several outboxes live in one database side by side.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Applies missing migrations in [`connect`](Self::connect), also when many nodes start at once.
    /// Default: a schema that is not current is an error.
    pub fn migrate(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Accepts a server that cannot be written, a replica for example; calls that write fail there. For
    /// those who only look. Default: such a server is refused at once.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The migrations of this outbox, to check, print or apply by themselves.
    pub fn migrations(&self) -> MySqlMigrations {
        MySqlMigrations::new(self.options.clone(), Sql::new(self.table.clone()))
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<MySqlStore, OpenError> {
        let migrations = self.migrations();
        if self.migrate {
            migrations.apply().await?;
        }
        let (server, database_id) = migrations.expect_current().await?;
        if server.read_only && !self.read_only {
            return Err(OpenError::ReadOnlyServer { server: connection::server(&self.options) });
        }
        let sql = Sql::new(self.table);
        Ok(MySqlStore(Arc::new(Inner {
            connections: Connections::new(&self.options),
            statements: Arc::new(Statements::bound_to(sql.table_ref(), database_id).on(server.flavour)),
            sql,
            flavour: server.flavour,
            claim_floor: ClaimFloor::new(),
            large_rows: AtomicBool::new(true),
            server_state: ServerStateCache::default(),
            settle_throttle: SettleThrottle::default(),
            parked_names: ParkedNames::default(),
            wake: OnceLock::new(),
            stop: CancellationToken::new(),
        })))
    }
}
