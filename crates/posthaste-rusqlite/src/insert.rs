//! The INSERT: one statement, whether for one event or for a thousand.

use posthaste::Timestamp;
use posthaste::writer::NewRow;
use posthaste_sql_writer::seqs_by_id;
use posthaste_sql_writer::sqlite::{InsertBatch, Statements, ids, values};
use rusqlite::{Connection, Result, params};

/// Inserts rows into the transaction that is open on this connection, and answers their `seq`s; none
/// where the id existed already.
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
    let row = values(row);
    let inserted = connection.prepare_cached(&statements.insert_one)?.execute(params![
        row.event_id,
        row.event_type,
        row.aggregate_type,
        row.aggregate_id,
        row.tenant_id,
        row.topic,
        row.content_type,
        row.schema_version,
        row.headers,
        row.payload_text,
        row.payload_bytes,
        row.created_at,
        row.due_in,
        row.owner,
        row.token,
        Timestamp::now().as_micros(),
    ])?;
    Ok((inserted == 1).then(|| connection.last_insert_rowid()))
}

fn insert_many(
    statements: &Statements,
    connection: &Connection,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>> {
    let batch = statements.insert_many(rows);
    let now = Timestamp::now().as_micros();
    let values = params![batch.rows, now, batch.due_in, batch.owner, batch.token];
    let inserted = connection.prepare_cached(batch.statement)?.execute(values)? as u64;
    if let Some(seqs) = InsertBatch::seqs(rows, inserted, connection.last_insert_rowid()) {
        return Ok(seqs);
    }
    let mut last_of = connection.prepare_cached(&statements.last_of)?;
    let written = last_of
        .query_map(params![ids(rows), inserted.cast_signed()], |row| Ok((row.get(1)?, row.get(0)?)))?;
    Ok(seqs_by_id(rows, written.collect::<Result<_>>()?))
}
