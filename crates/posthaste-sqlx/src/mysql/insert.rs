//! The INSERT on MySQL.

use posthaste::writer::NewRow;
use posthaste_sql_writer::mysql::{self, DUPLICATE_KEY, Flavour, Statements, next_batch, values};
use posthaste_sql_writer::seqs_by_id;
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::connection::number;
use super::value::{MySqlQuery, bind_all};
use crate::sql::ready;

/// Inserts rows into the open transaction of this connection. Returns their `seq`s; `None` for an id that exists
/// already.
pub(super) async fn insert(
    statements: &Statements,
    connection: &mut MySqlConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    let flavour = flavour(statements, connection).await?;
    let mut seqs = Vec::with_capacity(rows.len());
    let mut rest = rows;
    while !rest.is_empty() {
        let (batch, others) = next_batch(rest);
        match insert_batch(statements, flavour, connection, batch).await {
            Ok(inserted) => seqs.extend(inserted),
            Err(error) if is_duplicate(&error) => {
                for row in batch {
                    seqs.push(insert_or_know(statements, flavour, connection, row).await?);
                }
            }
            Err(error) => return Err(error),
        }
        rest = others;
    }
    Ok(seqs)
}

/// Asks the server whether it is MySQL or MariaDB.
pub(super) async fn flavour(
    statements: &Statements,
    connection: &mut MySqlConnection,
) -> sqlx::Result<Flavour> {
    match statements.flavour() {
        Some(flavour) => Ok(flavour),
        None => {
            let version: String = sqlx::query_scalar(mysql::VERSION).fetch_one(connection).await?;
            Ok(statements.learn(&version))
        }
    }
}

async fn insert_batch(
    statements: &Statements,
    flavour: Flavour,
    connection: &mut MySqlConnection,
    rows: &[NewRow],
) -> sqlx::Result<Vec<Option<i64>>> {
    let insert: MySqlQuery = ready(statements.insert(flavour, rows.len()));
    let insert = match statements.database_id() {
        Some(database_id) => insert.bind(database_id.to_owned()),
        None => insert,
    };
    let query = rows.iter().fold(insert, bind);
    if flavour == Flavour::MariaDb {
        return pair(rows, &query.fetch_all(connection).await?);
    }
    let inserted = query.execute(&mut *connection).await?;
    if rows.len() == 1 {
        return Ok(vec![i64::try_from(inserted.last_insert_id()).ok()]);
    }
    let ids: Vec<&str> = rows.iter().map(|row| row.event.id().as_str()).collect();
    let written = ready(&statements.written(ids.len()).into());
    pair(rows, &bind_all(written, &ids).fetch_all(connection).await?)
}

fn pair(rows: &[NewRow], written: &[MySqlRow]) -> sqlx::Result<Vec<Option<i64>>> {
    let pairs = written.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    Ok(seqs_by_id(rows, pairs.collect::<sqlx::Result<_>>()?))
}

/// Inserts one row. Returns `None` if its id exists already.
async fn insert_or_know(
    statements: &Statements,
    flavour: Flavour,
    connection: &mut MySqlConnection,
    row: &NewRow,
) -> sqlx::Result<Option<i64>> {
    match insert_batch(statements, flavour, connection, std::slice::from_ref(row)).await {
        Ok(seqs) => Ok(seqs.first().copied().flatten()),
        Err(error) if is_duplicate(&error) => {
            let known = ready::<MySql>(statements.exists()).bind(row.event.id().as_str());
            match known.fetch_optional(connection).await? {
                Some(_) => Ok(None),
                // Another unique key was violated, one of a trigger for example.
                None => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    number(error) == Some(DUPLICATE_KEY)
}

fn bind(query: MySqlQuery, row: &NewRow) -> MySqlQuery {
    let row = values(row);
    query
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
}
