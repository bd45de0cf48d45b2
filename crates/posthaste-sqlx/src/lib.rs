//! Stores for [Posthaste](posthaste) on [sqlx].
//!
//! One module and one feature per database, with the same file names inside: [`sqlite`].

#[cfg(feature = "sqlite")]
mod error;
#[cfg(feature = "sqlite")]
mod schema;
#[cfg(feature = "sqlite")]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod table;

#[cfg(feature = "sqlite")]
pub use error::OpenError;
#[cfg(feature = "sqlite")]
pub use schema::{Migration, SchemaState};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteTx, SqliteWriter};
pub use table::{InvalidTableName, TableName};

/// The pages of this repository that are about this crate, so that their examples are compiled and run.
#[cfg(all(doctest, feature = "sqlite"))]
mod pages {
    #[doc = include_str!("../../../docs/sqlite.md")]
    struct Sqlite;
}
