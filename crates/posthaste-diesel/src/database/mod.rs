//! `Dialect`: the operations that differ from database to database.

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

/// The statements of a Writer in one database, on connections of both kinds.
pub trait Dialect: DieselDatabase + Sized {
    /// The name of the database in errors.
    const NAME: &'static str;

    /// The statement that begins a transaction.
    const BEGIN: &'static str;

    /// Inserts rows into the open transaction of this connection; returns their `seq`s, `None` where the id existed
    /// already.
    fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        rows: &[NewRow],
    ) -> impl Future<Output = QueryResult<Vec<Option<i64>>>> + Send;

    /// Whether an INSERT is safe: a transaction is open, or the INSERT itself fails without one.
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

    /// Explains the error of an INSERT: no transaction is open, for example, or this is another database than that of
    /// the outbox.
    fn refused<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        error: Error,
    ) -> impl Future<Output = StoreError> + Send;

    /// The proof before COMMIT: the rows of the ledger that the transaction still sees. A transaction that cannot be
    /// committed any more is an error, if this database would return `Ok` for its COMMIT.
    fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Self::Statements,
        ledger: &Ledger,
    ) -> impl Future<Output = Result<HashSet<i64>, CommitError>> + Send;

    /// Explains the error of a COMMIT. `present` are the rows that the transaction saw immediately before it.
    fn explain<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        error: Error,
        present: &HashSet<i64>,
    ) -> impl Future<Output = CommitError> + Send;

    /// The connection belongs to the service, so its errors are passed on unchanged.
    fn failed(error: Error) -> StoreError {
        StoreError::backend(Self::NAME, error)
    }
}

/// A connection on which events can be written. Implemented for the connections of diesel and diesel-async whose
/// feature is enabled.
pub trait OutboxConnection: DieselConnection<Database: Dialect> {}

impl<C: DieselConnection<Database: Dialect>> OutboxConnection for C {}
