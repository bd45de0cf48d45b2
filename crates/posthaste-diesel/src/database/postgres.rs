//! The Writer on PostgreSQL.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text};
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::postgres::{ColumnValues, Statements, columns, values};
use posthaste_sql_writer::{Postgres, seqs_by_id};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::statement::{Statement, Value};

impl DieselDatabase for Postgres {
    type Backend = Pg;
}

impl Dialect for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const BEGIN: &'static str = "BEGIN";

    async fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        rows: &[NewRow],
    ) -> QueryResult<Vec<Option<i64>>> {
        let (text, mut values): (_, Vec<PgValue<'_>>) = match rows {
            [] => return Ok(Vec::new()),
            [one] => {
                let values = values(one).in_order().map(|value| PgValue::One(Value(value)));
                (&statements.insert_one, values.into())
            }
            many => (&statements.insert_many, columns(many).into_iter().map(PgValue::Column).collect()),
        };
        values.extend(statements.database_id().map(|id| PgValue::One(Value::of(id))));
        let insert = Statement::new(text, values).cacheable(statements.cacheable);
        let inserted = connection.pairs(insert).await?;
        Ok(seqs_by_id(rows, inserted.into_iter().map(|(seq, id)| (id, seq)).collect()))
    }

    /// Diesel counts the transactions that it began itself. For all others, a savepoint shows whether a transaction is
    /// open. Diesel does not expose the code of an error, so a second statement shows whether the savepoint failed
    /// because no transaction is open or because the connection is broken.
    async fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        _: &Statements,
    ) -> QueryResult<bool> {
        if connection.depth()? > 0 {
            return Ok(true);
        }
        match connection.execute_text("SAVEPOINT posthaste; RELEASE SAVEPOINT posthaste").await {
            Ok(()) => Ok(true),
            Err(_) if is_well(connection).await => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn refused<C: DieselConnection<Database = Self>>(
        _: &mut C,
        statements: &Statements,
        error: Error,
    ) -> StoreError {
        let other = match &error {
            Error::DatabaseError(_, info) => statements.other_database(info.message()),
            _ => None,
        };
        other.unwrap_or_else(|| Self::failed(error))
    }

    /// This query fails in a transaction that a failed statement has aborted. It therefore runs even if nothing was
    /// written: the failed statement may have been the write.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let seqs = ledger.seqs().into_iter().map(Some).collect();
        let written = vec![PgValue::Column(ColumnValues::Ints(seqs))];
        let present = connection
            .numbers(Statement::new(&statements.present, written).cacheable(statements.cacheable))
            .await;
        let present = present.map_err(|error| CommitError::RolledBack(Self::failed(error)))?;
        Ok(present.into_iter().collect())
    }

    /// Diesel does not expose the code of an error. An error that diesel classifies as a violated constraint or as a
    /// conflict with another transaction comes from the server itself. Every other error may come from a pooler that
    /// has lost its server.
    async fn explain<C: DieselConnection<Database = Self>>(
        _: &mut C,
        error: Error,
        _: &HashSet<i64>,
    ) -> CommitError {
        match is_refusal(&error) {
            true => CommitError::RolledBack(Self::failed(error)),
            false => CommitError::Unknown(Self::failed(error)),
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    match error {
        Error::DatabaseError(kind, _) => {
            !matches!(kind, DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::Unknown)
        }
        Error::RollbackErrorOnCommit { commit_error, .. } => is_refusal(commit_error),
        _ => false,
    }
}

/// Whether the connection works and is not in an aborted transaction.
async fn is_well<C: DieselConnection>(connection: &mut C) -> bool {
    connection.execute_text("SELECT 1").await.is_ok()
}

/// One value, or all values of a column.
#[derive(Debug)]
enum PgValue<'v> {
    One(Value<'v>),
    Column(ColumnValues<'v>),
}

impl QueryFragment<Pg> for PgValue<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match self {
            Self::One(value) => value.walk_ast(out),
            Self::Column(ColumnValues::Texts(texts)) => {
                out.push_bind_param_value_only::<Array<Nullable<Text>>, _>(texts)
            }
            Self::Column(ColumnValues::Ints(ints)) => {
                out.push_bind_param_value_only::<Array<Nullable<BigInt>>, _>(ints)
            }
            Self::Column(ColumnValues::Bytes(bytes)) => {
                out.push_bind_param_value_only::<Array<Nullable<Binary>>, _>(bytes)
            }
        }
    }
}
