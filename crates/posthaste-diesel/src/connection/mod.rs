//! `DieselConnection`: what a transaction needs from a connection of diesel or diesel-async.
//!
//! The code that uses this trait is written once, as async code, for both kinds of connections. A call of a diesel
//! connection blocks until it has its result, so the future that it returns is ready when it is first polled: see
//! [`expect_ready`].

#[cfg(any(feature = "async-mysql", feature = "async-postgres", feature = "async-sqlite"))]
mod asynchronous;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod blocking;

use diesel::QueryResult;
use diesel::query_builder::QueryFragment;
use posthaste_sql_writer::Database;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use blocking::expect_ready;

use crate::statement::Statement;

/// A database that diesel supports.
pub trait DieselDatabase: Database {
    /// The backend of diesel for this database.
    type Backend: diesel::backend::Backend;
}

/// The backend of diesel for the database of a connection.
pub(crate) type BackendOf<C> = <<C as DieselConnection>::Database as DieselDatabase>::Backend;

/// A connection of diesel or diesel-async.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection that events can be written on",
    label = "not a supported connection of diesel or diesel-async",
    note = "supported are `PgConnection`, `MysqlConnection` and `SqliteConnection` of diesel, and \
            `AsyncPgConnection`, `AsyncMysqlConnection` and `SyncConnectionWrapper<SqliteConnection>` of diesel-async",
    note = "each needs a feature of posthaste-diesel, such as `postgres` or `async-postgres`",
    note = "for a pooled connection, pass the connection inside: `&mut *connection`"
)]
pub trait DieselConnection: Send + Sized {
    /// The database that it connects to.
    type Database: DieselDatabase;

    /// Whether the rows that an INSERT returns can be read. Diesel's blocking connection to MySQL reads the columns of
    /// a statement while preparing it, but MariaDB reports the columns of an INSERT only while executing it.
    const READS_INSERTS: bool;

    /// The number of open transactions and savepoints, as diesel counts them.
    fn depth(&mut self) -> QueryResult<u32>;

    /// Marks the connection as broken: no transaction can begin or commit on it any more, and pools close it.
    fn give_up(&mut self);

    /// Whether a transaction can begin: none is open, and no call was dropped before its end.
    fn is_free(&mut self) -> bool;

    /// Begins a transaction with this statement.
    fn begin(&mut self, statement: &'static str) -> impl Future<Output = QueryResult<()>> + Send;

    /// Opens a savepoint.
    fn savepoint(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Commits the transaction, or releases the innermost savepoint.
    fn commit(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Rolls back to the innermost savepoint, or the whole transaction if there is no savepoint.
    fn rollback(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Executes an SQL text without preparing it.
    fn execute_text(&mut self, text: &str) -> impl Future<Output = QueryResult<()>> + Send;

    /// Executes a statement; returns the number of rows that it changed.
    fn execute<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<usize>> + Send;

    /// Executes a statement; returns its number column.
    fn numbers<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<i64>>> + Send;

    /// Executes a statement; returns its text column.
    fn texts<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<String>>> + Send;

    /// Executes a statement; returns its two columns, a number and a text.
    fn pairs<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<(i64, String)>>> + Send;

    /// Executes a statement; returns its three columns, a number and two texts.
    fn triples<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<(i64, String, String)>>> + Send;
}
