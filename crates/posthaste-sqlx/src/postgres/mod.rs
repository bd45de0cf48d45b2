//! The PostgreSQL store, from PostgreSQL 13 on: an outbox in the service's own database.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::PgStore;
//! use sqlx::PgPool;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPool::connect("postgres://localhost/shop").await?;
//!
//! let store = PgStore::builder(&pool.connect_options()).migrate().connect().await?;
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

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use posthaste::store::Notifier;
use posthaste::writer::NewRow;
use posthaste::{Outbox, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::postgres::Statements;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, Postgres};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub use migrate::PgMigrations;

use crate::claim_floor::ClaimFloor;
use crate::parked_routes_cache::ParkedNames;
use crate::server_state_cache::ServerStateCache;
use crate::settle_throttle::SettleThrottle;
use crate::sql::Sql;
use crate::{OpenError, Savepoint, SchemaName, TableName, Tx, Writer};
use connection::{ConnectionPath, Connections, Login, named};

/// Writes events in transactions of a [`PgPool`](sqlx::PgPool); made by [`PgStore::writer`].
pub type PgWriter = Writer<Postgres>;

/// A transaction of a [`PgWriter`]. Derefs to the [`PgConnection`].
pub type PgTx = Tx<Postgres>;

/// A savepoint in a [`PgTx`] or in another savepoint. Derefs to the [`PgConnection`].
pub type PgSavepoint<'a> = Savepoint<'a, Postgres>;

/// An outbox in a PostgreSQL database. Cheap to clone.
///
/// It opens a few connections of its own, so that a pool of the service that is exhausted never stops
/// it, nor the reverse. Any number of processes may share a table.
#[derive(Clone, Debug)]
pub struct PgStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: Connections,
    sql: Sql,
    statements: Arc<Statements>,
    claim_floor: ClaimFloor,
    server_state: ServerStateCache,
    settle_throttle: SettleThrottle,
    parked_names: ParkedNames,
    /// Set when the archive's partition of the day was seen for the first time.
    todays_partition: OnceCell<()>,
    /// When to see again that the archive has partitions for the days to come.
    next_partition_check: Mutex<Option<Instant>>,
    /// The wake-up: notified when there may be something to claim; made when an engine first asks.
    wake: OnceLock<Notifier>,
    /// Where to listen for other processes; none behind PgBouncer.
    listen: Option<Login>,
    /// Notified when other processes are to be woken; made with the first writer.
    remote_notifier: OnceLock<Notifier>,
    /// Cancelled when the store ends, for the task that listens.
    stop: CancellationToken,
    notify: Notify,
}

/// When a write wakes the relays and engines of other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Right after the commit, from a connection of the store's own, once for all commits of ten
    /// milliseconds. The default: it costs the writers nothing.
    #[default]
    AfterCommit,
    /// By the commit itself. Reaches the others also when the writing process ends at that moment, but
    /// all commits on the whole server that notify wait for each other: with 16 writers a quarter to a
    /// fifteenth of the commits per second was measured.
    InTransaction,
    /// Never: the others poll.
    Off,
}

impl PgStore {
    /// Opens the outbox `outbox_event` in the schema `public` of the database that these options, a
    /// pool's for example, lead to. A schema that is missing, older or newer is an error that says what
    /// to do; it changes nothing.
    pub async fn connect(options: &PgConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// The same with another table, with migrations, or behind PgBouncer.
    pub fn builder(options: &PgConnectOptions) -> PgStoreBuilder {
        PgStoreBuilder {
            options: Login(options.clone()),
            table: TableName::default(),
            schema: SchemaName::default(),
            migrate: false,
            read_only: false,
            path: ConnectionPath::Direct,
            listen: None,
            notify: Notify::default(),
        }
    }

    /// The Writer on sqlx. Made once; cheap to clone.
    pub fn writer(&self, outbox: &Outbox) -> PgWriter {
        PgWriter { context: self.writer_context(outbox), state: () }
    }

    /// What Writers of other drivers are made of.
    pub fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::Postgres> {
        let core = outbox.writer_core();
        let core = match self.0.notify {
            Notify::AfterCommit => core.with_notifier(self.remote_notifier()),
            Notify::InTransaction | Notify::Off => core,
        };
        WriterContext::new(core, Arc::clone(&self.0.statements)).keeping(self.clone())
    }

    /// The INSERT alone, for the conformance suite: no hooks, no limits, no receipt. Services use a
    /// [`PgWriter`].
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut PgConnection,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let inserted = insert::insert(&self.0.statements, connection, rows).await;
        inserted.map_err(|error| self.connections().failed(error))
    }

    /// Closes the store's connections. Calls after it fail.
    pub async fn close(&self) {
        if self.0.remote_notifier.get().is_some() {
            // Other processes may not have been notified of the last commits yet, and a hint is worth no long wait.
            let notify = self.connections().engine(async |connection| self.notify(connection).await);
            let _ = tokio::time::timeout(wake_up::LAST_NOTIFY_TIMEOUT, notify).await;
        }
        self.connections().close().await;
        self.0.end_tasks();
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

    fn next_partition_check(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.next_partition_check.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to listen when somebody asks for the first time.
    fn listen(&self) -> Notifier {
        let wake = self.0.wake.get_or_init(|| {
            let wake = Notifier::new();
            let runtime = tokio::runtime::Handle::try_current();
            if let (Some(options), Ok(runtime)) = (&self.0.listen, runtime) {
                let channel = self.sql().table().to_string();
                let stop = self.0.stop.clone();
                runtime.spawn(wake_up::listen_until(stop, options.0.clone(), channel, wake.clone()));
            }
            wake
        });
        wake.clone()
    }

    /// The notifier whose task wakes other processes, started when it is needed for the first time.
    fn remote_notifier(&self) -> Notifier {
        let notifier = self.0.remote_notifier.get_or_init(|| {
            let notifier = Notifier::new();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(wake_up::wake_others(Arc::downgrade(&self.0), notifier.clone()));
            }
            notifier
        });
        notifier.clone()
    }

    /// Rows became due: this process and the others may have a look.
    fn notify_due(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
        if self.0.notify != Notify::Off {
            self.remote_notifier().notify();
        }
    }

    /// Wakes the other processes when this connection's transaction commits.
    async fn notify(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        self.sql().query::<Postgres>("SELECT pg_notify('{name}', '')").execute(connection).await?;
        Ok(())
    }
}

impl Inner {
    /// Lets the tasks behind the notifiers see that the store is gone.
    fn end_tasks(&self) {
        self.stop.cancel();
        if let Some(notifier) = self.remote_notifier.get() {
            notifier.notify();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

/// Opens a [`PgStore`].
#[derive(Clone, Debug)]
#[must_use = "call `connect`"]
pub struct PgStoreBuilder {
    options: Login,
    table: TableName,
    schema: SchemaName,
    migrate: bool,
    read_only: bool,
    path: ConnectionPath,
    listen: Option<Login>,
    notify: Notify,
}

impl PgStoreBuilder {
    /// The outbox table. Default: `outbox_event`. Several outboxes live in one database side by side.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// The schema that the table stands in, whatever the search path of a connection is. Default:
    /// `public`.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// Applies missing migrations in [`connect`](Self::connect), also when many nodes start at once.
    /// Default: a schema that is not current is an error.
    pub fn migrate(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Accepts a database that cannot be written, a replica for example, and a user that may only read;
    /// calls that write fail there. For those who only look. Default: such a database is refused at once.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Makes every statement safe behind a PgBouncer in transaction mode, the writer's too: no prepared
    /// statement outlives its transaction, no session is relied on, and nobody listens, so that relays
    /// poll unless [`listen_on`](Self::listen_on) shows them another way. Costs two more round trips
    /// per call. Default: off, for a server or a pooler in session mode.
    pub fn pgbouncer(mut self) -> Self {
        self.path = ConnectionPath::PgBouncer;
        self
    }

    /// Where to listen for the wake-ups of other processes. Default: on the database itself; behind
    /// PgBouncer, nowhere.
    pub fn listen_on(mut self, options: &PgConnectOptions) -> Self {
        self.listen = Some(Login(options.clone()));
        self
    }

    /// When a write wakes other processes. Default: [`Notify::AfterCommit`].
    pub fn notify(mut self, notify: Notify) -> Self {
        self.notify = notify;
        self
    }

    /// The migrations of this outbox, to check, print or apply by themselves.
    pub fn migrations(&self) -> PgMigrations {
        PgMigrations::new(self.options.clone(), self.path, self.sql())
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<PgStore, OpenError> {
        let migrations = self.migrations();
        if self.migrate {
            migrations.apply().await?;
        }
        let (server, database_id) = migrations.expect_current().await?;
        let connections = Connections::new(&self.options, self.path);
        let sql = self.sql();
        if !self.read_only {
            if server.read_only {
                return Err(OpenError::ReadOnlyServer { server: connection::server(&self.options) });
            }
            connections.check_rights(&sql).await?;
        }
        let statements = Arc::new(self.statements(&sql).bound_to(sql.table_ref(), database_id));
        let listen = match self.path {
            ConnectionPath::Direct => Some(self.listen.unwrap_or_else(|| self.options.clone())),
            ConnectionPath::PgBouncer => self.listen,
        };
        Ok(PgStore(Arc::new(Inner {
            connections,
            sql,
            statements,
            claim_floor: ClaimFloor::new(),
            server_state: ServerStateCache::default(),
            settle_throttle: SettleThrottle::default(),
            parked_names: ParkedNames::default(),
            todays_partition: OnceCell::new(),
            next_partition_check: Mutex::new(None),
            wake: OnceLock::new(),
            listen: listen.map(|options| Login(named(&options, ConnectionPath::Direct, "posthaste listen"))),
            remote_notifier: OnceLock::new(),
            stop: CancellationToken::new(),
            notify: self.notify,
        })))
    }

    fn sql(&self) -> Sql {
        let sql = Sql::new(self.table.clone()).in_schema(self.schema.clone());
        match self.path {
            ConnectionPath::Direct => sql,
            ConnectionPath::PgBouncer => sql.uncacheable(),
        }
    }

    /// What writers say.
    fn statements(&self, sql: &Sql) -> Statements {
        let statements = match self.notify {
            Notify::InTransaction => Statements::notifying(sql.table_ref()),
            Notify::AfterCommit | Notify::Off => Statements::new(sql.table_ref()),
        };
        match self.path {
            ConnectionPath::Direct => statements,
            ConnectionPath::PgBouncer => statements.uncacheable(),
        }
    }
}
