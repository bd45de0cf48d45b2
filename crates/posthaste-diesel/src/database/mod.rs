//! What the databases have in common, and where they differ.

#[cfg(any(feature = "mysql", feature = "async-mysql"))]
mod mysql;
#[cfg(any(feature = "postgres", feature = "async-postgres"))]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::result::Error;
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};

use crate::connection::{DieselConnection, DieselDatabase};

/// How a Writer speaks to a database, whatever the connection.
pub trait Dialect: DieselDatabase + Sized {
    /// The name of the database in errors.
    const NAME: &'static str;

    /// Begins a transaction that may write.
    const BEGIN: &'static str;

    /// Inserts rows into the transaction that is open on this connection, and answers their `seq`s; none
    /// where the id existed already.
    fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        rows: &[NewRow],
    ) -> impl Future<Output = QueryResult<Vec<Option<i64>>>> + Send;

    /// Whether a row that is inserted now can be rolled back: a transaction is open, or the INSERT itself
    /// fails without one.
    fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
    ) -> impl Future<Output = QueryResult<bool>> + Send;

    /// Refuses a connection to another database than that of the outbox, where the INSERT itself does not.
    fn expect_database<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (connection, statements);
        std::future::ready(Ok(()))
    }

    /// What an INSERT that failed means: that no transaction is open, for example, or that this is another
    /// database than that of the outbox.
    fn refused<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        error: Error,
    ) -> impl Future<Output = StoreError> + Send;

    /// The proof before COMMIT: which of the rows written the transaction still sees. A transaction that can
    /// not be committed any more is an error, if this database would say `Ok` to its COMMIT.
    fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        ledger: &Ledger,
    ) -> impl Future<Output = Result<HashSet<i64>, CommitError>> + Send;

    /// What a COMMIT that failed means. Right before it the transaction saw these of its rows.
    fn explain<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        error: Error,
        present: &HashSet<i64>,
    ) -> impl Future<Output = CommitError> + Send;

    /// The connection is the service's own, so its errors are passed on as they are.
    fn failed(error: Error) -> StoreError {
        StoreError::backend(Self::NAME, error)
    }
}

/// A connection to a database whose dialect is known.
pub trait OutboxConnection: DieselConnection<Database: Dialect> {}

impl<C: DieselConnection<Database: Dialect>> OutboxConnection for C {}
