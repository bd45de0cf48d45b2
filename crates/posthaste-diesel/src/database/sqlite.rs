//! The Writer on SQLite.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::result::Error;
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::Sqlite;
use posthaste_sql_writer::sqlite::{self, Statements};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::statement::{Statement, Value};
use crate::writer_session::{NumbersRows, WriterSession};

impl DieselDatabase for Sqlite {
    type Backend = diesel::sqlite::Sqlite;
}

impl NumbersRows for Sqlite {
    const LAST_INSERT_ID: &'static str = "SELECT last_insert_rowid()";
}

impl Dialect for Sqlite {
    const NAME: &'static str = "SQLite";
    /// Takes the write lock at the start, so that no later statement fails because another connection is writing.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    async fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        rows: &[NewRow],
    ) -> QueryResult<Vec<Option<i64>>> {
        sqlite::insert(&mut WriterSession(connection), statements, rows).await
    }

    /// Asks SQLite itself, because diesel's count misses a BEGIN or COMMIT sent as an SQL text, and the rollback after
    /// a full disk.
    ///
    /// SQLite refuses this PRAGMA inside a transaction. Outside one it has no effect, because it applies to the
    /// temporary database. It must not be prepared, because SQLite makes this check while parsing the text.
    async fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        _: &Statements,
    ) -> QueryResult<bool> {
        match connection.execute_text("PRAGMA temp.synchronous = OFF").await {
            Ok(()) => Ok(false),
            Err(Error::DatabaseError(_, info)) if info.message().contains("inside a transaction") => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn expect_database<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
    ) -> Result<(), StoreError> {
        if !statements.must_identify(None) {
            return Ok(());
        }
        let identify = Statement::<Value<'_>>::new(&statements.identify, Vec::new());
        let found = connection.triples(identify).await.map_err(Self::failed)?;
        let found: Vec<_> = found.into_iter().map(|(born, _, file)| (born, file)).collect();
        statements.expect_database(&found)
    }

    async fn refused<C: DieselConnection<Database = Self>>(
        _: &mut C,
        _: &Statements,
        error: Error,
    ) -> StoreError {
        Self::failed(error)
    }

    /// A savepoint may have rolled some rows back. If the whole transaction is lost, COMMIT returns an error.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let present = sqlite::present(&mut WriterSession(connection), statements, ledger.ids_by_seq()).await;
        present.map_err(|error| CommitError::RolledBack(Self::failed(error)))
    }

    /// Diesel rolls back a transaction that SQLite refuses to commit. If the transaction had ended before and none of
    /// its rows exists, it was rolled back.
    async fn explain<C: DieselConnection<Database = Self>>(
        _: &mut C,
        error: Error,
        present: &HashSet<i64>,
    ) -> CommitError {
        match is_refusal(&error, present) {
            true => CommitError::RolledBack(Self::failed(error)),
            false => CommitError::Unknown(Self::failed(error)),
        }
    }
}

fn is_refusal(error: &Error, present: &HashSet<i64>) -> bool {
    match error {
        Error::DatabaseError(_, info) => {
            !info.message().contains("no transaction is active") || present.is_empty()
        }
        Error::RollbackErrorOnCommit { commit_error, .. } => is_refusal(commit_error, present),
        _ => false,
    }
}
