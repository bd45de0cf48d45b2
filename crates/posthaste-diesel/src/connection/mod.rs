//! A connection of diesel or of diesel-async: what a transaction needs of it.
//!
//! Everything above is written once, for both kinds of connections. What a connection of diesel's answers is
//! there when the call returns, so a future of it is ready when it is polled first: see [`expect_ready`].

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

/// A database that diesel knows.
pub trait DieselDatabase: Database {
    /// What diesel calls it.
    type Backend: diesel::backend::Backend;
}

/// What diesel calls the database behind a connection.
pub(crate) type BackendOf<C> = <<C as DieselConnection>::Database as DieselDatabase>::Backend;

/// A connection of diesel's or of diesel-async's.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection that events can be written on",
    label = "not a supported connection of diesel or diesel-async",
    note = "supported are `PgConnection`, `MysqlConnection` and `SqliteConnection` of diesel, and \
            `AsyncPgConnection`, `AsyncMysqlConnection` and `SyncConnectionWrapper<SqliteConnection>` of diesel-async",
    note = "each needs a feature of posthaste-diesel, such as `postgres` or `async-postgres`",
    note = "of a pooled connection pass what is inside: `&mut *connection`"
)]
pub trait DieselConnection: Send + Sized {
    /// The database behind it.
    type Database: DieselDatabase;

    /// Whether what an INSERT answers can be read. Diesel's own connection to MySQL wants to know the columns
    /// when it prepares a statement, and MariaDB tells those of an INSERT only when it runs.
    const READS_INSERTS: bool;

    /// How many transactions and savepoints diesel counts on it.
    fn depth(&mut self) -> QueryResult<u32>;

    /// Lets nobody begin or commit a transaction on it any more: pools throw it away.
    fn give_up(&mut self);

    /// Whether a transaction can begin: none is open, and no call was left in the middle of one.
    fn is_free(&mut self) -> bool;

    /// Begins a transaction with this statement.
    fn begin(&mut self, statement: &'static str) -> impl Future<Output = QueryResult<()>> + Send;

    /// Opens a savepoint.
    fn savepoint(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Commits the transaction, or releases the innermost savepoint.
    fn commit(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Rolls back to the innermost savepoint, or everything if there is none.
    fn rollback(&mut self) -> impl Future<Output = QueryResult<()>> + Send;

    /// Executes a text as it is, unprepared.
    fn execute_text(&mut self, text: &str) -> impl Future<Output = QueryResult<()>> + Send;

    /// Executes a statement, and answers how many rows it changed.
    fn execute<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<usize>> + Send;

    /// What a statement answers, as numbers.
    fn numbers<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<i64>>> + Send;

    /// What a statement answers, as texts.
    fn texts<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<String>>> + Send;

    /// What a statement answers, as numbers with a text.
    fn pairs<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<(i64, String)>>> + Send;

    /// What a statement answers, as numbers with two texts.
    fn triples<V: QueryFragment<BackendOf<Self>> + Send>(
        &mut self,
        statement: Statement<'_, V>,
    ) -> impl Future<Output = QueryResult<Vec<(i64, String, String)>>> + Send;
}
