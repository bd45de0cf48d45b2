//! Writes events of [Posthaste](posthaste) in transactions of [diesel] and diesel-async.
//!
//! A Writer is made with `SqliteWriter::new(&store, &outbox)`, from a store of `posthaste-sqlx`; or, in a service
//! without a store, with `SqliteWriter::from_context` from a [`WriterContext`]. Its events are stored if and only if
//! the transaction commits, and are delivered after the commit.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use diesel::prelude::*;
//! use posthaste::{BoxError, Event};
//! use posthaste_diesel::SqliteWriter;
//!
//! diesel::table! {
//!     orders (id) { id -> Integer, item -> Text }
//! }
//!
//! fn place_order(
//!     writer: &SqliteWriter,
//!     connection: &mut SqliteConnection,
//!     item: &str,
//! ) -> Result<(), BoxError> {
//!     writer.transaction(connection, |tx| {
//!         diesel::insert_into(orders::table).values(orders::item.eq(item)).execute(tx.conn())?;
//!         tx.write(Event::json("OrderPlaced", &item)?)?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! With diesel-async the same is `writer.transaction(connection, async |tx| { … }).await`. Into a transaction that the
//! service began itself, events are inserted with `writer.insert(connection, event)`, which returns a receipt. Give it
//! to [`Outbox::committed`](posthaste::Outbox::committed) after the commit.
//!
//! # Features
//!
//! No feature is on by default. `postgres` and `mysql` are for diesel and link the C libraries libpq and libmysqlclient
//! (or libmariadb) of the machine, as diesel itself does. `async-postgres` and `async-mysql` are for diesel-async and
//! need no such library. `sqlite` and `async-sqlite` compile SQLite in.

// All databases and both kinds of connections share the code, so some of it is unused without some features.
#![cfg_attr(
    not(all(feature = "async-postgres", feature = "postgres")),
    allow(dead_code, unreachable_pub, reason = "each feature uses a part of the shared code")
)]

#[cfg(any(feature = "async-mysql", feature = "async-postgres", feature = "async-sqlite"))]
mod async_writer;
mod connection;
mod database;
mod open_transaction;
mod statement;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod writer;
#[cfg(any(feature = "async-mysql", feature = "mysql", feature = "sqlite"))]
mod writer_session;

// Named so that SQLite is compiled in.
#[cfg(feature = "sqlite")]
use libsqlite3_sys as _;
pub use posthaste_sql_writer::WriterContext;

#[cfg(any(feature = "async-mysql", feature = "async-postgres", feature = "async-sqlite"))]
pub use async_writer::{AsyncTx, AsyncWriter};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use writer::{Tx, Writer};

/// Writes events in PostgreSQL on connections of diesel.
#[cfg(feature = "postgres")]
pub type PgWriter = Writer<diesel::PgConnection>;
/// A transaction of a [`PgWriter`].
#[cfg(feature = "postgres")]
pub type PgTx<'c> = Tx<'c, diesel::PgConnection>;

/// Writes events in MySQL or MariaDB on connections of diesel.
#[cfg(feature = "mysql")]
pub type MySqlWriter = Writer<diesel::MysqlConnection>;
/// A transaction of a [`MySqlWriter`].
#[cfg(feature = "mysql")]
pub type MySqlTx<'c> = Tx<'c, diesel::MysqlConnection>;

/// Writes events in SQLite on connections of diesel.
#[cfg(feature = "sqlite")]
pub type SqliteWriter = Writer<diesel::SqliteConnection>;
/// A transaction of a [`SqliteWriter`].
#[cfg(feature = "sqlite")]
pub type SqliteTx<'c> = Tx<'c, diesel::SqliteConnection>;

/// Writes events in PostgreSQL on connections of diesel-async.
#[cfg(feature = "async-postgres")]
pub type AsyncPgWriter = AsyncWriter<diesel_async::AsyncPgConnection>;
/// A transaction of an [`AsyncPgWriter`].
#[cfg(feature = "async-postgres")]
pub type AsyncPgTx<'c> = AsyncTx<'c, diesel_async::AsyncPgConnection>;

/// Writes events in MySQL or MariaDB on connections of diesel-async.
#[cfg(feature = "async-mysql")]
pub type AsyncMySqlWriter = AsyncWriter<diesel_async::AsyncMysqlConnection>;
/// A transaction of an [`AsyncMySqlWriter`].
#[cfg(feature = "async-mysql")]
pub type AsyncMySqlTx<'c> = AsyncTx<'c, diesel_async::AsyncMysqlConnection>;

/// Writes events in SQLite on connections of diesel-async, which runs SQLite on other threads. A call that is dropped
/// needs Tokio's multi-threaded runtime.
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteWriter = AsyncWriter<AsyncSqliteConnection>;
/// A transaction of an [`AsyncSqliteWriter`].
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteTx<'c> = AsyncTx<'c, AsyncSqliteConnection>;

/// A SQLite connection of diesel-async.
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteConnection =
    diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>;
