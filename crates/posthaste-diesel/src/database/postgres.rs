//! PostgreSQL.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text};
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::postgres::{InsertColumns, Statements, values};
use posthaste_sql_writer::{Postgres, seqs_by_id};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::statement::{Statement, Value, row};

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
        let inserted = match rows {
            [] => return Ok(Vec::new()),
            [one] => {
                let mut values: Vec<_> = row(values(one)).map(PgValue::One).into();
                values.extend(database_id(statements));
                connection
                    .pairs(Statement::new(&statements.insert_one, values).cacheable(statements.cacheable))
                    .await?
            }
            many => {
                let mut values: Vec<_> = columns(InsertColumns::of(many)).into();
                values.extend(database_id(statements));
                connection
                    .pairs(Statement::new(&statements.insert_many, values).cacheable(statements.cacheable))
                    .await?
            }
        };
        Ok(seqs_by_id(rows, inserted.into_iter().map(|(seq, id)| (id, seq)).collect()))
    }

    /// What diesel has begun is asked of diesel. What else is open can hold a savepoint; diesel does not show
    /// the code of an error, so an error of PostgreSQL's own is told from others by what comes next.
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
            Error::DatabaseError(_, said) => statements.other_database(said.message()),
            _ => None,
        };
        other.unwrap_or_else(|| Self::failed(error))
    }

    /// In a transaction that a failed statement has aborted, this fails too, so it is asked even if nothing
    /// was written: the failed statement may have been the write.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let written = vec![PgValue::Ints(ledger.seqs())];
        let present = connection
            .numbers(Statement::new(&statements.present, written).cacheable(statements.cacheable))
            .await;
        let present = present.map_err(|error| CommitError::RolledBack(Self::failed(error)))?;
        Ok(present.into_iter().collect())
    }

    /// Diesel does not show the code of an error, but what it calls a violated constraint or a conflict with
    /// another transaction the server itself has said. Everything else a pooler may have said for a server
    /// that it has lost.
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

/// The last value of an INSERT: which database the rows belong to.
fn database_id(statements: &Statements) -> Option<PgValue<'_>> {
    statements.database_id().map(|database_id| PgValue::One(database_id.into()))
}

/// Whether the server answers, and is in no transaction that it has aborted.
async fn is_well<C: DieselConnection>(connection: &mut C) -> bool {
    connection.execute_text("SELECT 1").await.is_ok()
}

/// One value, or the values of a column.
#[derive(Debug)]
enum PgValue<'v> {
    One(Value<'v>),
    Texts(Vec<&'v str>),
    MaybeTexts(Vec<Option<&'v str>>),
    OwnTexts(Vec<Option<String>>),
    Ints(Vec<i64>),
    MaybeInts(Vec<Option<i64>>),
    Bytes(Vec<Option<&'v [u8]>>),
}

impl QueryFragment<Pg> for PgValue<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match self {
            Self::One(value) => value.walk_ast(out),
            Self::Texts(texts) => out.push_bind_param_value_only::<Array<Text>, _>(texts),
            Self::MaybeTexts(texts) => out.push_bind_param_value_only::<Array<Nullable<Text>>, _>(texts),
            Self::OwnTexts(texts) => out.push_bind_param_value_only::<Array<Nullable<Text>>, _>(texts),
            Self::Ints(ints) => out.push_bind_param_value_only::<Array<BigInt>, _>(ints),
            Self::MaybeInts(ints) => out.push_bind_param_value_only::<Array<Nullable<BigInt>>, _>(ints),
            Self::Bytes(bytes) => out.push_bind_param_value_only::<Array<Nullable<Binary>>, _>(bytes),
        }
    }
}

fn columns(columns: InsertColumns<'_>) -> [PgValue<'_>; 15] {
    [
        PgValue::Texts(columns.event_id),
        PgValue::Texts(columns.event_type),
        PgValue::Texts(columns.aggregate_type),
        PgValue::MaybeTexts(columns.aggregate_id),
        PgValue::MaybeTexts(columns.tenant_id),
        PgValue::MaybeTexts(columns.topic),
        PgValue::MaybeTexts(columns.content_type),
        PgValue::MaybeInts(columns.schema_version),
        PgValue::OwnTexts(columns.headers),
        PgValue::MaybeTexts(columns.payload_text),
        PgValue::Bytes(columns.payload_bytes),
        PgValue::Ints(columns.created_at),
        PgValue::Ints(columns.due_in),
        PgValue::MaybeTexts(columns.owner),
        PgValue::Ints(columns.token),
    ]
}
