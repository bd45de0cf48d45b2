//! Writes events of [Posthaste](posthaste) in transactions of [diesel] and [diesel-async].
//!
//! A Writer is made of a [`WriterContext`], which a store gives: `store.writer_context(&outbox)`. What happens to
//! the service's own rows happens to its events, and after the commit they are delivered.
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
//! With diesel-async the same is `writer.transaction(connection, async |tx| { … }).await`. A transaction that
//! the service opened itself takes events through `writer.insert(connection, event)`, whose receipt goes to
//! [`Outbox::committed`](posthaste::Outbox::committed) after the commit.
//!
//! # Features
//!
//! None is on by default. `postgres` and `mysql` are for diesel, and link the C libraries libpq and
//! libmysqlclient (or libmariadb) of the machine, as diesel itself does. `async-postgres` and `async-mysql`
//! are for diesel-async, and need no such library. `sqlite` and `async-sqlite` have SQLite compiled in.
//!
//! [diesel-async]: https://docs.rs/diesel-async

// The code is one for all databases and both kinds of connections, and some of it is for one of them.
#![cfg_attr(
    not(all(feature = "async-postgres", feature = "postgres")),
    allow(dead_code, unreachable_pub, reason = "not every feature needs everything")
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

// Named only to have SQLite compiled in.
#[cfg(feature = "sqlite")]
use libsqlite3_sys as _;
pub use posthaste_sql_writer::WriterContext;

#[cfg(any(feature = "async-mysql", feature = "async-postgres", feature = "async-sqlite"))]
pub use async_writer::{AsyncTx, AsyncWriter};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use writer::{Tx, Writer};

/// Writes events in PostgreSQL, on connections of diesel's.
#[cfg(feature = "postgres")]
pub type PgWriter = Writer<diesel::PgConnection>;
/// A transaction of a [`PgWriter`].
#[cfg(feature = "postgres")]
pub type PgTx<'c> = Tx<'c, diesel::PgConnection>;

/// Writes events in MySQL or MariaDB, on connections of diesel's.
#[cfg(feature = "mysql")]
pub type MySqlWriter = Writer<diesel::MysqlConnection>;
/// A transaction of a [`MySqlWriter`].
#[cfg(feature = "mysql")]
pub type MySqlTx<'c> = Tx<'c, diesel::MysqlConnection>;

/// Writes events in SQLite, on connections of diesel's.
#[cfg(feature = "sqlite")]
pub type SqliteWriter = Writer<diesel::SqliteConnection>;
/// A transaction of a [`SqliteWriter`].
#[cfg(feature = "sqlite")]
pub type SqliteTx<'c> = Tx<'c, diesel::SqliteConnection>;

/// Writes events in PostgreSQL, on connections of diesel-async's.
#[cfg(feature = "async-postgres")]
pub type AsyncPgWriter = AsyncWriter<diesel_async::AsyncPgConnection>;
/// A transaction of an [`AsyncPgWriter`].
#[cfg(feature = "async-postgres")]
pub type AsyncPgTx<'c> = AsyncTx<'c, diesel_async::AsyncPgConnection>;

/// Writes events in MySQL or MariaDB, on connections of diesel-async's.
#[cfg(feature = "async-mysql")]
pub type AsyncMySqlWriter = AsyncWriter<diesel_async::AsyncMysqlConnection>;
/// A transaction of an [`AsyncMySqlWriter`].
#[cfg(feature = "async-mysql")]
pub type AsyncMySqlTx<'c> = AsyncTx<'c, diesel_async::AsyncMysqlConnection>;

/// Writes events in SQLite, on connections of diesel-async's. Diesel-async waits for SQLite on other threads,
/// and when a call is dropped it needs Tokio's multi-threaded runtime.
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteWriter = AsyncWriter<AsyncSqliteConnection>;
/// A transaction of an [`AsyncSqliteWriter`].
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteTx<'c> = AsyncTx<'c, AsyncSqliteConnection>;

/// A SQLite connection of diesel-async's.
#[cfg(feature = "async-sqlite")]
pub type AsyncSqliteConnection =
    diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>;
