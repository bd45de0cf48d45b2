//! The INSERT: one statement for any number of events.

use std::borrow::Cow;

use posthaste::Timestamp;
use posthaste::writer::NewRow;
use posthaste_sql_writer::sqlite::{InsertBatch, Statements, ids, values};
use posthaste_sql_writer::{RowValue, seqs_by_id};
use rusqlite::types::{Null, ToSqlOutput};
use rusqlite::{Connection, Result, params, params_from_iter};

/// Inserts rows into the open transaction of this connection; returns their `seq`s, `None` where the id existed
/// already.
pub(crate) fn insert(
    statements: &Statements,
    connection: &Connection,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>> {
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(statements, connection, row).map(|seq| vec![seq]),
        rows => insert_many(statements, connection, rows),
    }
}

fn insert_one(statements: &Statements, connection: &Connection, row: &NewRow) -> Result<Option<i64>> {
    let values = values(row).in_order().into_iter().chain([Timestamp::now().as_micros().into()]).map(bound);
    let inserted = connection.prepare_cached(&statements.insert_one)?.execute(params_from_iter(values))?;
    Ok((inserted == 1).then(|| connection.last_insert_rowid()))
}

fn bound(value: RowValue<'_>) -> ToSqlOutput<'_> {
    match value {
        RowValue::Text(Some(Cow::Borrowed(text))) => text.into(),
        RowValue::Text(Some(Cow::Owned(text))) => text.into(),
        RowValue::Int(Some(int)) => int.into(),
        RowValue::Bytes(Some(bytes)) => bytes.into(),
        RowValue::Text(None) | RowValue::Int(None) | RowValue::Bytes(None) => Null.into(),
    }
}

fn insert_many(
    statements: &Statements,
    connection: &Connection,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>> {
    let batch = statements.insert_many(rows);
    let statement = batch.statement;
    let values = batch.in_order(Timestamp::now().as_micros()).map(bound);
    let inserted = connection.prepare_cached(statement)?.execute(params_from_iter(values))? as u64;
    if let Some(seqs) = InsertBatch::seqs(rows, inserted, connection.last_insert_rowid()) {
        return Ok(seqs);
    }
    let mut last_of = connection.prepare_cached(&statements.last_of)?;
    let written = last_of
        .query_map(params![ids(rows), inserted.cast_signed()], |row| Ok((row.get(1)?, row.get(0)?)))?;
    Ok(seqs_by_id(rows, written.collect::<Result<_>>()?))
}
