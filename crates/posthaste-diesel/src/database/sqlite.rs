//! SQLite.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::result::Error;
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError, Timestamp};
use posthaste_sql_writer::sqlite::{InsertBatch, Statements, WrittenRows, ids, values};
use posthaste_sql_writer::{Sqlite, seqs_by_id};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::statement::{Statement, Value};

impl DieselDatabase for Sqlite {
    type Backend = diesel::sqlite::Sqlite;
}

impl Dialect for Sqlite {
    const NAME: &'static str = "SQLite";
    /// With the write lock from the start, so that nothing fails later because somebody else is writing.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    async fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        rows: &[NewRow],
    ) -> QueryResult<Vec<Option<i64>>> {
        match rows {
            [] => Ok(Vec::new()),
            [row] => insert_one(connection, statements, row).await.map(|seq| vec![seq]),
            rows => insert_many(connection, statements, rows).await,
        }
    }

    /// Asks SQLite itself. Diesel's own count misses a raw BEGIN, a raw COMMIT, and the rollback that follows
    /// a full disk.
    ///
    /// SQLite refuses this setting inside a transaction, and ignores it outside one because it is the
    /// temporary database's. Not a prepared statement: SQLite looks when it parses the text.
    async fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        _: &Statements,
    ) -> QueryResult<bool> {
        match connection.execute_text("PRAGMA temp.synchronous = OFF").await {
            Ok(()) => Ok(false),
            Err(Error::DatabaseError(_, said)) if said.message().contains("inside a transaction") => Ok(true),
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

    /// A savepoint may have taken some rows back. If all is lost COMMIT says so.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let written = WrittenRows::new(ledger.ids_by_seq());
        if written.is_empty() {
            return Ok(HashSet::new());
        }
        let missing =
            connection.numbers(Statement::new(&statements.missing, vec![Value::of(written.to_json())])).await;
        let missing = missing.map_err(|error| CommitError::RolledBack(Self::failed(error)))?;
        Ok(written.present(missing))
    }

    /// Diesel rolls back what SQLite refuses to commit. Only where there was no transaction left to commit,
    /// the rows themselves tell how it had ended.
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
        Error::DatabaseError(_, said) => {
            !said.message().contains("no transaction is active") || present.is_empty()
        }
        Error::RollbackErrorOnCommit { commit_error, .. } => is_refusal(commit_error, present),
        _ => false,
    }
}

async fn insert_one<C: DieselConnection<Database = Sqlite>>(
    connection: &mut C,
    statements: &Statements,
    new: &NewRow,
) -> QueryResult<Option<i64>> {
    let now = Value::of(Timestamp::now().as_micros());
    let values = values(new).in_order().map(Value).into_iter().chain([now]).collect();
    match connection.execute(Statement::new(&statements.insert_one, values)).await? {
        0 => Ok(None),
        _ => last_row_id(connection).await.map(Some),
    }
}

async fn insert_many<C: DieselConnection<Database = Sqlite>>(
    connection: &mut C,
    statements: &Statements,
    rows: &[NewRow],
) -> QueryResult<Vec<Option<i64>>> {
    let batch = statements.insert_many(rows);
    let statement = batch.statement;
    let values = batch.in_order(Timestamp::now().as_micros()).map(Value).into();
    let inserted = connection.execute(Statement::new(statement, values)).await?;
    if let Some(seqs) = InsertBatch::seqs(rows, inserted as u64, last_row_id(connection).await?) {
        return Ok(seqs);
    }
    let values = vec![Value::of(ids(rows)), Value::of(i64::try_from(inserted).unwrap_or(i64::MAX))];
    let written = connection.pairs(Statement::new(&statements.last_of, values)).await?;
    Ok(seqs_by_id(rows, written.into_iter().map(|(seq, id)| (id, seq)).collect()))
}

/// Diesel does not show what its driver knows.
async fn last_row_id<C: DieselConnection<Database = Sqlite>>(connection: &mut C) -> QueryResult<i64> {
    let last = Statement::<Value<'_>>::new("SELECT last_insert_rowid()", Vec::new());
    connection.numbers(last).await?.first().copied().ok_or(Error::NotFound)
}
