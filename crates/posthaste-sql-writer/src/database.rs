//! Marker types for the databases: a context for one database cannot be given to a Writer for another.

use std::fmt;

/// A database, as a marker type: [`Postgres`](crate::Postgres), [`MySql`](crate::MySql) or [`Sqlite`](crate::Sqlite).
pub trait Database: 'static {
    /// The statements that a Writer executes in this database.
    type Statements: fmt::Debug + Send + Sync;
}
