//! Stores for [Posthaste](posthaste) on [sqlx]. Services whose own driver is diesel, SeaORM, tokio-postgres or rusqlite
//! need this crate too, for the store; their Writers are in crates of their own.
//!
//! No database is on by default, and without one this crate is empty. Name yours in `Cargo.toml`, for example:
//!
//! ```toml
//! posthaste-sqlx = { path = "../posthaste/crates/posthaste-sqlx", features = ["sqlite"] }
//! ```
//!
//! Everything that all databases share is written once, generic over the database: [`SqlStore`] with its
//! [`StoreBuilder`] and its [`Migrations`], [`Writer`], [`Tx`] and [`Savepoint`]. A trait per file names what differs
//! between databases, and each database implements it in the file of the same name. There is one module and one feature
//! per database, with aliases for its types:
#![cfg_attr(feature = "mysql", doc = " - [`mysql`]: MariaDB 10.6, MySQL 8.0.13 and later;")]
#![cfg_attr(feature = "postgres", doc = " - [`postgres`]: PostgreSQL 13 and later;")]
#![cfg_attr(feature = "sqlite", doc = " - [`sqlite`]: the service's own database file.")]
#![cfg_attr(
    any(feature = "mysql", feature = "postgres"),
    doc = "\nThe module [`foreign`] is for existing outbox tables with other columns."
)]
#![cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#![allow(private_bounds, reason = "the traits of the databases are internal")]

mod cancel_safety;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod claim_byte_limit;
mod claim_floor;
mod clock_and_pauses;
mod error;
mod filter;
mod findings;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod foreign;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod login;
mod migrations;
#[cfg(feature = "mysql")]
pub mod mysql;
mod page;
mod parked_routes_cache;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queries;
mod row;
mod row_estimate;
mod schema_state;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod settle_throttle;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod store_pool;
mod transaction_depth;
mod tx;
mod writer;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod writer_session;

pub use error::OpenError;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use foreign::{ForeignTableStore, Layout};
pub use migrations::Migrations;
#[cfg(feature = "mysql")]
pub use mysql::{MySqlStore, MySqlTx, MySqlWriter};
#[cfg(feature = "postgres")]
pub use postgres::{PgStore, PgTx, PgWriter};
pub use posthaste_sql_writer::{InvalidSchemaName, InvalidTableName, SchemaName, TableName};
pub use schema_state::{Migration, SchemaState};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteTx, SqliteWriter};
pub use store::SqlStore;
pub use store::builder::StoreBuilder;
pub use tx::{Savepoint, Tx};
pub use writer::Writer;

/// Documentation pages of the repository that are about this crate, so that their examples are compiled and run.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/layouts.md")]
    struct Layouts;

    #[cfg(feature = "mysql")]
    #[doc = include_str!("../../../docs/mysql.md")]
    struct MySql;

    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/postgres.md")]
    struct Postgres;

    #[cfg(feature = "sqlite")]
    #[doc = include_str!("../../../docs/sqlite.md")]
    struct Sqlite;
}
