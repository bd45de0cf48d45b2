//! Stores for [Posthaste](posthaste) on [sqlx].
//!
//! One module and one feature per database, with the same file names inside:
#![cfg_attr(feature = "postgres", doc = " - [`postgres`], PostgreSQL from 13 on;")]
#![cfg_attr(feature = "sqlite", doc = " - [`sqlite`], in the service's own database file.")]

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod error;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod new_row;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod schema;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod table;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use error::OpenError;
#[cfg(feature = "postgres")]
pub use postgres::{PgStore, PgTx, PgWriter};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use schema::{Migration, SchemaState};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteTx, SqliteWriter};
pub use table::{InvalidSchemaName, InvalidTableName, SchemaName, TableName};

/// The pages of this repository that are about this crate, so that their examples are compiled and run.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/postgres.md")]
    struct Postgres;

    #[cfg(feature = "sqlite")]
    #[doc = include_str!("../../../docs/sqlite.md")]
    struct Sqlite;
}
