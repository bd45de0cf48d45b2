//! The INSERT on SQLite: one statement, for one event and for a thousand.

use posthaste::Timestamp;
use posthaste::writer::NewRow;
use posthaste_sql_writer::seqs_by_id;
use posthaste_sql_writer::sqlite::{InsertBatch, Statements, ids, values};
use sqlx::{Row as _, Sqlite, SqliteConnection};

use crate::sql::ready;

/// Inserts rows into the open transaction of this connection. Returns their `seq`s; `None` for an id that exists
/// already.
pub(super) async fn insert(
    statements: &Statements,
    connection: &mut SqliteConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(statements, connection, row).await.map(|seq| vec![seq]),
        rows => insert_many(statements, connection, rows).await,
    }
}

async fn insert_one(
    statements: &Statements,
    connection: &mut SqliteConnection,
    row: &NewRow,
) -> sqlx::Result<Option<i64>> {
    let row = values(row);
    let result = ready::<Sqlite>(&statements.insert_one)
        .bind(row.event_id.to_owned())
        .bind(row.event_type.to_owned())
        .bind(row.aggregate_type.to_owned())
        .bind(row.aggregate_id.map(str::to_owned))
        .bind(row.tenant_id.map(str::to_owned))
        .bind(row.topic.map(str::to_owned))
        .bind(row.content_type.map(str::to_owned))
        .bind(row.schema_version)
        .bind(row.headers)
        .bind(row.payload_text.map(str::to_owned))
        .bind(row.payload_bytes.map(<[u8]>::to_vec))
        .bind(row.created_at)
        .bind(row.due_in)
        .bind(row.owner.map(str::to_owned))
        .bind(row.token)
        .bind(Timestamp::now().as_micros())
        .execute(connection)
        .await?;
    Ok((result.rows_affected() == 1).then(|| result.last_insert_rowid()))
}

async fn insert_many(
    statements: &Statements,
    connection: &mut SqliteConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    let batch = statements.insert_many(rows);
    let result = ready::<Sqlite>(batch.statement)
        .bind(batch.rows)
        .bind(Timestamp::now().as_micros())
        .bind(batch.due_in)
        .bind(batch.owner.map(str::to_owned))
        .bind(batch.token)
        .execute(&mut *connection)
        .await?;
    let inserted = result.rows_affected();
    if let Some(seqs) = InsertBatch::seqs(rows, inserted, result.last_insert_rowid()) {
        return Ok(seqs);
    }
    let last_of = ready::<Sqlite>(&statements.last_of).bind(ids(rows)).bind(inserted.cast_signed());
    let written = last_of.fetch_all(connection).await?;
    let pairs = written.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    Ok(seqs_by_id(rows, pairs.collect::<sqlx::Result<_>>()?))
}
