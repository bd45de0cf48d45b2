//! The PostgreSQL store: an outbox in the service's own database. Needs PostgreSQL 13 or later.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::{PgStore, PgWriter};
//! use sqlx::PgPool;
//!
//! # async fn run() -> Result<(), posthaste::BoxError> {
//! let pool = PgPool::connect("postgres://localhost/shop").await?;
//!
//! let store = PgStore::builder(&pool.connect_options()).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = PgWriter::new(&store, &outbox);
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
pub(crate) mod diagnose;
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
pub(crate) mod value;
mod wake_up;
mod writer;

use posthaste::Outbox;
use posthaste_sql_writer::{OutboxStore, WriterContext};
use sqlx::Postgres;
use sqlx::postgres::PgConnectOptions;

pub use migrate::PgMigrations;
pub use store::Notify;

use crate::store::StoreDialect as _;
use crate::store::builder::BuilderDialect as _;
use crate::{OpenError, Savepoint, SchemaName, SqlStore, StoreBuilder, Tx, Writer};
use connection::{ConnectionPath, Connections, Login};
use store::State;

/// An outbox in a PostgreSQL database. Cheap to clone.
///
/// It opens a few connections of its own: an exhausted pool of the service never stops it, and it never exhausts that
/// pool. Any number of processes may share a table.
pub type PgStore = SqlStore<Postgres>;

/// Opens a [`PgStore`]. Its options are those of [`StoreBuilder`], and the ones below.
pub type PgStoreBuilder = StoreBuilder<Postgres>;

/// Writes events in transactions of a [`PgPool`](sqlx::PgPool). Its methods are those of [`Writer`].
pub type PgWriter = Writer<Postgres>;

/// A transaction of a [`PgWriter`]. Derefs to the [`PgConnection`](sqlx::PgConnection). Its methods are those of
/// [`Tx`].
pub type PgTx = Tx<Postgres>;

/// A savepoint in a [`PgTx`] or in another savepoint. Derefs to the [`PgConnection`](sqlx::PgConnection). Its methods
/// are those of [`Savepoint`].
pub type PgSavepoint<'a> = Savepoint<'a, Postgres>;

impl PgStore {
    /// Opens the outbox `outbox_event` in the schema `public` of the database of these options, for example those of a
    /// pool. A schema that is missing, older, or newer and not compatible with this version is an error that says what
    /// to do; nothing is changed.
    pub async fn connect(options: &PgConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// Builds a store with other options, such as another table, migrations or PgBouncer.
    pub fn builder(options: &PgConnectOptions) -> PgStoreBuilder {
        PgStoreBuilder::new(Login::new(options.clone()))
    }
}

/// The `new` of every driver's Writer takes this store.
impl OutboxStore<posthaste_sql_writer::Postgres> for PgStore {
    fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::Postgres> {
        Postgres::writer_context(self, outbox.writer_core())
    }
}

/// The options that only PostgreSQL has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    schema: SchemaName,
    path: ConnectionPath,
    listen: Option<Login>,
    notify: Notify,
}

impl PgStoreBuilder {
    /// The schema that contains the table, whatever the search path of a connection is. Default: `public`.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.settings.schema = schema;
        self
    }

    /// Makes every statement safe behind a PgBouncer in transaction mode, also those of Writers: no prepared statement
    /// outlives its transaction, and nothing depends on a session. LISTEN does not work there, so relays poll unless
    /// [`listen_on`](Self::listen_on) names a direct connection. Costs two more round trips per call. Default: off, for
    /// a server or a pooler in session mode.
    pub fn pgbouncer(mut self) -> Self {
        self.settings.path = ConnectionPath::PgBouncer;
        self
    }

    /// Where to listen for wake-ups of other processes. Default: the database itself; behind PgBouncer, nowhere.
    pub fn listen_on(mut self, options: &PgConnectOptions) -> Self {
        self.settings.listen = Some(Login::new(options.clone()));
        self
    }

    /// When a write wakes other processes. Default: [`Notify::AfterCommit`].
    pub fn notify(mut self, notify: Notify) -> Self {
        self.settings.notify = notify;
        self
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<PgStore, OpenError> {
        let migrations = self.migrations();
        if self.migrate {
            migrations.apply().await?;
        }
        let (server, database_id) = migrations.expect_current().await?;
        let sql = Postgres::sql(&self);
        let Settings { path, listen, notify, .. } = self.settings;
        let connections = Connections::new(&self.options, path);
        if !self.read_only {
            if server.read_only {
                return Err(OpenError::ReadOnlyServer { server: connection::server(&self.options) });
            }
            connections.check_rights(&sql).await?;
        }
        let statements = notify.statements(&sql, path).bound_to(sql.table_ref(), database_id);
        let listen = match path {
            ConnectionPath::Direct => Some(listen.unwrap_or(self.options)),
            ConnectionPath::PgBouncer => listen,
        };
        Ok(PgStore::new(connections, sql, statements, State::new(listen, notify)))
    }
}
