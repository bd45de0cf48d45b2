//! The INSERT: one statement, whether for one event or for a thousand.

use posthaste::writer::NewRow;
use posthaste_sql_writer::postgres::{InsertColumns, Statements, values};
use posthaste_sql_writer::seqs_by_id;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Transaction};

use crate::writer_session::WriterSession;

/// The types of the values of one row, and of the [database id](Statements::database_id) behind them.
const ONE_ROW_TYPES: [Type; 16] = [
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
];

/// The same as lists.
const MANY_ROWS_TYPES: [Type; 16] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT,
];

/// The types of the values of one row, for a context that has a database id or none.
fn types_of_one(statements: &Statements) -> &'static [Type] {
    match statements.database_id() {
        Some(_) => &ONE_ROW_TYPES,
        None => &ONE_ROW_TYPES[..ONE_ROW_TYPES.len() - 1],
    }
}

/// What became of rows.
#[derive(Debug, Default)]
pub(crate) struct Inserted {
    /// One entry per row; none where the id existed already.
    pub(crate) seqs: Vec<Option<i64>>,
    /// Whether a savepoint was open, whoever opened it.
    pub(crate) in_savepoint: bool,
}

/// Prepares on a new connection, before a transaction begins, what nearly every one needs.
pub(crate) async fn warm_up(session: &WriterSession, client: &Client) -> Result<(), Error> {
    let types = types_of_one(session.statements());
    session.ready(client, &session.statements().insert_one_with_savepoint_flag, types).await.map(|_| ())
}

/// Inserts rows into this transaction.
pub(crate) async fn insert(
    session: &WriterSession,
    tx: &Transaction<'_>,
    rows: &[NewRow],
) -> Result<Inserted, Error> {
    match rows {
        [] => Ok(Inserted::default()),
        [row] => insert_one(session, tx, row).await,
        rows => insert_many(session, tx, rows).await,
    }
}

async fn insert_one(session: &WriterSession, tx: &Transaction<'_>, row: &NewRow) -> Result<Inserted, Error> {
    let row = values(row);
    let database_id = session.statements().database_id();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![
        &row.event_id,
        &row.event_type,
        &row.aggregate_type,
        &row.aggregate_id,
        &row.tenant_id,
        &row.topic,
        &row.content_type,
        &row.schema_version,
        &row.headers,
        &row.payload_text,
        &row.payload_bytes,
        &row.created_at,
        &row.due_in,
        &row.owner,
        &row.token,
    ];
    values.extend(database_id.as_ref().map(|database_id| database_id as &(dyn ToSql + Sync)));
    let types = types_of_one(session.statements());
    let statement =
        session.ready(tx.client(), &session.statements().insert_one_with_savepoint_flag, types).await?;
    let inserted = statement.rows(tx, &values, types).await?;
    let seqs = vec![inserted.first().map(|row| row.try_get(0)).transpose()?];
    Ok(Inserted { seqs, in_savepoint: in_savepoint(&inserted)? })
}

async fn insert_many(
    session: &WriterSession,
    tx: &Transaction<'_>,
    rows: &[NewRow],
) -> Result<Inserted, Error> {
    let columns = InsertColumns::of(rows);
    let database_id = session.statements().database_id();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![
        &columns.event_id,
        &columns.event_type,
        &columns.aggregate_type,
        &columns.aggregate_id,
        &columns.tenant_id,
        &columns.topic,
        &columns.content_type,
        &columns.schema_version,
        &columns.headers,
        &columns.payload_text,
        &columns.payload_bytes,
        &columns.created_at,
        &columns.due_in,
        &columns.owner,
        &columns.token,
    ];
    values.extend(database_id.as_ref().map(|database_id| database_id as &(dyn ToSql + Sync)));
    let types = &MANY_ROWS_TYPES[..values.len()];
    let statement =
        session.ready(tx.client(), &session.statements().insert_many_with_savepoint_flag, types).await?;
    let inserted = statement.rows(tx, &values, types).await?;
    let pairs = inserted.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let seqs = seqs_by_id(rows, pairs.collect::<Result<_, Error>>()?);
    Ok(Inserted { seqs, in_savepoint: in_savepoint(&inserted)? })
}

/// The same for all rows of a statement.
fn in_savepoint(inserted: &[Row]) -> Result<bool, Error> {
    inserted.first().map_or(Ok(false), |row| row.try_get(2))
}
