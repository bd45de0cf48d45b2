//! The INSERT on PostgreSQL: one statement, for one event and for a thousand.

use posthaste::writer::NewRow;
use posthaste_sql_writer::postgres::{InsertColumns, Statements, values};
use posthaste_sql_writer::seqs_by_id;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};

use crate::sql::ready;

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Inserts rows into the open transaction of this connection. Returns their `seq`s; `None` for an id that exists
/// already.
pub(super) async fn insert(
    statements: &Statements,
    connection: &mut PgConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(statements, connection, row).await,
        rows => insert_many(statements, connection, rows).await,
    }
}

async fn insert_one(
    statements: &Statements,
    connection: &mut PgConnection,
    row: &NewRow,
) -> sqlx::Result<Vec<Option<i64>>> {
    let row = values(row);
    let insert = ready::<Postgres>(&statements.insert_one)
        .persistent(statements.cacheable)
        .bind(row.event_id)
        .bind(row.event_type)
        .bind(row.aggregate_type)
        .bind(row.aggregate_id)
        .bind(row.tenant_id)
        .bind(row.topic)
        .bind(row.content_type)
        .bind(row.schema_version)
        .bind(row.headers)
        .bind(row.payload_text)
        .bind(row.payload_bytes)
        .bind(row.created_at)
        .bind(row.due_in)
        .bind(row.owner)
        .bind(row.token)
        .bind(row.lease_for);
    let inserted = bind_database_id(insert, statements).fetch_optional(connection).await?;
    Ok(vec![inserted.map(|row| row.try_get(0)).transpose()?])
}

async fn insert_many(
    statements: &Statements,
    connection: &mut PgConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    let columns = InsertColumns::of(rows);
    let insert = ready::<Postgres>(&statements.insert_many)
        .persistent(statements.cacheable)
        .bind(columns.event_id)
        .bind(columns.event_type)
        .bind(columns.aggregate_type)
        .bind(columns.aggregate_id)
        .bind(columns.tenant_id)
        .bind(columns.topic)
        .bind(columns.content_type)
        .bind(columns.schema_version)
        .bind(columns.headers)
        .bind(columns.payload_text)
        .bind(columns.payload_bytes)
        .bind(columns.created_at)
        .bind(columns.due_in)
        .bind(columns.owner)
        .bind(columns.token)
        .bind(columns.lease_for);
    let inserted = bind_database_id(insert, statements).fetch_all(connection).await?;
    let pairs = inserted.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    Ok(seqs_by_id(rows, pairs.collect::<sqlx::Result<_>>()?))
}

/// Binds the last value: the id of the database to which the rows belong.
fn bind_database_id<'q>(insert: PgQuery<'q>, statements: &Statements) -> PgQuery<'q> {
    match statements.database_id() {
        Some(database_id) => insert.bind(database_id.to_owned()),
        None => insert,
    }
}
