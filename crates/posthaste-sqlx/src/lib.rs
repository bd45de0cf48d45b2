//! Stores for [Posthaste](posthaste) on [sqlx].
//!
//! One module and one feature per database, with the same file names inside:
#![cfg_attr(feature = "mysql", doc = " - [`mysql`], MariaDB from 10.6 on and MySQL from 8.0.13 on;")]
#![cfg_attr(feature = "postgres", doc = " - [`postgres`], PostgreSQL from 13 on;")]
#![cfg_attr(feature = "sqlite", doc = " - [`sqlite`], in the service's own database file.")]
#![cfg_attr(
    any(feature = "mysql", feature = "postgres"),
    doc = "\nAnd [`foreign`], for outbox tables that exist already and look different."
)]

#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod byte_limit;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod cancel_safety;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod claim_floor;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod error;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod findings;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod foreign;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod page;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod parked_routes_cache;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod row_estimate;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod schema;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod server_state_cache;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod settle_throttle;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod store_pool;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod transaction_depth;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use error::OpenError;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use foreign::{ForeignTableStore, Layout};
#[cfg(feature = "mysql")]
pub use mysql::{MySqlStore, MySqlTx, MySqlWriter};
#[cfg(feature = "postgres")]
pub use postgres::{PgStore, PgTx, PgWriter};
pub use posthaste_sql_writer::{InvalidSchemaName, InvalidTableName, SchemaName, TableName};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use schema::{Migration, SchemaState};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteTx, SqliteWriter};

/// The pages of this repository that are about this crate, so that their examples are compiled and run.
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
