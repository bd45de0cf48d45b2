//! The statements that every Writer of [Posthaste](posthaste) executes in a SQL database, whatever its driver.
//!
//! A driver's Writer binds values, sends a statement and reads the result. The statements and the values are in this
//! crate, one text per database for all drivers, and so is the [`WriterContext`] that a Writer is made from. Parameters
//! have types that every driver supports: text, 64-bit integers and bytes; times are microseconds. This crate depends
//! on no driver.
//!
//! A service needs this crate only if it writes without a store, because a relay elsewhere delivers:
//!
//! ```
//! use posthaste_sql_writer::{WriterContext, Postgres};
//!
//! # fn main() -> Result<(), posthaste::BoxError> {
//! let context = WriterContext::<Postgres>::writer_only().table("billing_outbox".parse()?).build();
//! # let _ = context;
//! # Ok(())
//! # }
//! ```

mod database;
mod database_id;
pub mod mysql;
mod name;
mod outbox_store;
pub mod postgres;
mod row;
mod session;
pub mod sqlite;
mod table_ref;
mod writer_context;

pub use database::Database;
pub use database_id::DatabaseId;
pub use mysql::MySql;
pub use name::{InvalidSchemaName, InvalidTableName, SchemaName, TableName};
pub use outbox_store::OutboxStore;
pub use postgres::Postgres;
pub use row::{RowValue, RowValues, seqs_by_id};
pub use session::Session;
pub use sqlite::Sqlite;
pub use table_ref::TableRef;
pub use writer_context::{WriterContext, WriterContextBuilder};
