//! The SQLite store: an outbox in the service's own database file.
//!
//! ```
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::{SqliteStore, SqliteWriter};
//! use sqlx::SqlitePool;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), posthaste::BoxError> {
//! let pool = SqlitePool::connect("sqlite::memory:").await?;
//! sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&pool).await?;
//!
//! let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = SqliteWriter::new(&store, &outbox);
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
//! The store sets the journal mode of the file to WAL. Write transactions of the service should begin with
//! `BEGIN IMMEDIATE`, as [`SqliteWriter::begin`] does: a transaction that reads first and writes later fails
//! immediately, whatever its busy timeout, if another connection has written in between.

mod admin;
mod backlog;
mod claim;
mod connection;
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
mod value;
mod wake_up;
mod write_queue;
mod writer;

use posthaste::Outbox;
use posthaste_sql_writer::sqlite::{DatabaseFile, Statements};
use posthaste_sql_writer::{OutboxStore, WriterContext};
use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

pub use migrate::SqliteMigrations;

use crate::sql::Sql;
use crate::store::{Connections as _, StoreDialect as _};
use crate::{OpenError, Savepoint, SqlStore, StoreBuilder, Tx, Writer};
use connection::{Connections, engine_options, reader_options};
use writer::WriterState;

/// An outbox in a SQLite database. Cheap to clone.
///
/// It opens connections of its own, one that writes and up to two that read: an exhausted pool of the service never
/// stops it, and it never exhausts that pool. Several processes may share a file.
pub type SqliteStore = SqlStore<Sqlite>;

/// Opens a [`SqliteStore`]. Its options are those of [`StoreBuilder`].
pub type SqliteStoreBuilder = StoreBuilder<Sqlite>;

/// Writes events in transactions of a [`SqlitePool`](sqlx::SqlitePool). Its methods are those of [`Writer`].
pub type SqliteWriter = Writer<Sqlite>;

/// A transaction of a [`SqliteWriter`]. Derefs to the [`SqliteConnection`](sqlx::SqliteConnection). Its methods are
/// those of [`Tx`].
pub type SqliteTx = Tx<Sqlite>;

/// A savepoint in a [`SqliteTx`] or in another savepoint. Derefs to the [`SqliteConnection`](sqlx::SqliteConnection).
/// Its methods are those of [`Savepoint`].
pub type SqliteSavepoint<'a> = Savepoint<'a, Sqlite>;

impl SqliteStore {
    /// Opens the outbox `outbox_event` in the database of these options, for example those of a pool. A schema that is
    /// missing, older, or newer and not compatible with this version is an error that says what to do, and the file is
    /// not changed. Otherwise only the journal mode is changed: it becomes WAL.
    pub async fn connect(options: &SqliteConnectOptions) -> Result<Self, OpenError> {
        Self::builder(options).connect().await
    }

    /// Builds a store with other options, such as another table or migrations.
    pub fn builder(options: &SqliteConnectOptions) -> SqliteStoreBuilder {
        SqliteStoreBuilder::new(options.clone())
    }

    async fn open(connections: Connections, sql: Sql) -> Result<Self, OpenError> {
        let statements = Statements::new(sql.table_ref());
        let found = match connections.reader().await {
            Ok(mut connection) => writer::identify(&statements, &mut connection).await,
            Err(error) => Err(error),
        };
        let database = DatabaseFile::new(found.map_err(|error| connections.explain(error))?);
        let state = WriterState::new(connections.write_queue.clone());
        Ok(Self::new(connections, sql, statements.bound_to(database), state))
    }
}

/// The `new` of every driver's Writer takes this store.
impl OutboxStore<posthaste_sql_writer::Sqlite> for SqliteStore {
    fn writer_context(&self, outbox: &Outbox) -> WriterContext<posthaste_sql_writer::Sqlite> {
        Sqlite::writer_context(self, outbox.writer_core())
    }
}

impl SqliteStoreBuilder {
    /// Opens the store.
    pub async fn connect(self) -> Result<SqliteStore, OpenError> {
        let migrations = self.migrations();
        let sql = Sql::new(self.table);
        // A database in memory disappears with its last connection, so the store connects before it migrates. Without
        // migrations the schema is checked first, so that a file without an outbox is not set to WAL.
        if self.migrate {
            let connections = Connections::open(engine_options(&self.options)).await?;
            migrations.apply().await?;
            connections.check_writable(&sql).await?;
            return SqliteStore::open(connections, sql).await;
        }
        migrations.expect_current().await?;
        if self.read_only {
            return SqliteStore::open(Connections::open(reader_options(&self.options)).await?, sql).await;
        }
        let connections = Connections::open(engine_options(&self.options)).await?;
        connections.check_writable(&sql).await?;
        SqliteStore::open(connections, sql).await
    }
}
