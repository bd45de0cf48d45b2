//! The MySQL and MariaDB store: an outbox in the service's own database. Needs MariaDB 10.6, MySQL 8.0.13 or later.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::{MySqlStore, MySqlWriter};
//! use sqlx::MySqlPool;
//!
//! # async fn run() -> Result<(), posthaste::BoxError> {
//! let pool = MySqlPool::connect("mysql://shop@localhost/shop").await?;
//!
//! let store = MySqlStore::builder(&pool.connect_options()).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = MySqlWriter::new(&store, &outbox);
//!
//! let mut tx = writer.begin(&pool).await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (17)").execute(&mut *tx).await?;
//! tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": 17 }))?).await?;
//! tx.commit().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod adaptive_batch;
mod admin;
mod backlog;
mod claim;
pub(crate) mod connection;
mod diagnose;
mod filter;
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

use posthaste::Outbox;
use posthaste_sql_writer::mysql::Statements;
use posthaste_sql_writer::{OutboxStore, WriterContext};
use sqlx::MySql;
use sqlx::mysql::MySqlConnectOptions;

pub use migrate::MySqlMigrations;

use crate::sql::Sql;
use crate::store::StoreDialect as _;
use crate::{OpenError, Savepoint, SqlStore, StoreBuilder, Tx, Writer};
use connection::{Connections, Login};
use store::State;

/// An outbox in a MySQL or MariaDB database. Cheap to clone.
///
/// It opens a few connections of its own: an exhausted pool of the service never stops it, and it never exhausts that
/// pool. Any number of processes may share a table.
pub type MySqlStore = SqlStore<MySql>;

/// Opens a [`MySqlStore`]. Its options are those of [`StoreBuilder`].
pub type MySqlStoreBuilder = StoreBuilder<MySql>;

/// Writes events in transactions of a [`MySqlPool`](sqlx::MySqlPool). Its methods are those of [`Writer`].
pub type MySqlWriter = Writer<MySql>;

/// A transaction of a [`MySqlWriter`]. Derefs to the [`MySqlConnection`](sqlx::MySqlConnection). Its methods are those
/// of [`Tx`].
pub type MySqlTx = Tx<MySql>;

/// A savepoint in a [`MySqlTx`] or in another savepoint. Derefs to the [`MySqlConnection`](sqlx::MySqlConnection). Its
/// methods are those of [`Savepoint`].
pub type MySqlSavepoint<'a> = Savepoint<'a, MySql>;

impl MySqlStore {
    /// Opens the outbox `outbox_event` in the database of these options, for example those of a pool. A schema that is
    /// missing, older, or newer and not compatible with this version is an error that says what to do; nothing is
    /// changed.
    pub async fn connect(options: &MySqlConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// Builds a store with other options, such as another table or migrations.
    pub fn builder(options: &MySqlConnectOptions) -> MySqlStoreBuilder {
        MySqlStoreBuilder::new(Login::new(options.clone()))
    }

    /// The number of calls that were repeated so far because of a deadlock or a lock timeout. A few are normal.
    pub fn repeated_calls(&self) -> u64 {
        self.connections().repeated()
    }
}

/// The `new` of every driver's Writer takes this store.
impl OutboxStore<posthaste_sql_writer::MySql> for MySqlStore {
    fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::MySql> {
        MySql::writer_context(self, outbox.writer_core())
    }
}

impl MySqlStoreBuilder {
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
        let connections = Connections::new(&self.options);
        let statements = Statements::bound_to(sql.table_ref(), database_id).on(server.flavour);
        Ok(MySqlStore::new(connections, sql, statements, State::new(server.flavour)))
    }
}
