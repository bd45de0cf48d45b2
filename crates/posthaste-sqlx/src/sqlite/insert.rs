//! The INSERT: one statement, whether for one event or for a thousand.

use std::collections::HashMap;

use posthaste::Timestamp;
use posthaste::writer::NewRow;
use serde::Serialize;
use sqlx::{Row as _, SqliteConnection};

use crate::new_row::{due_in, headers_json, owner, text_payload, token};
use crate::sql::Sql;

macro_rules! insert_into {
    () => {
        r#"INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, created_at, inserted_at, available_at,
  locked_by, locked_at, lease_token) "#
    };
}

const ONE: &str = concat!(
    insert_into!(),
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
     ON CONFLICT (event_id) DO NOTHING"
);

/// For rows that have nothing but the usual columns and share one lease, or none: every value that need
/// not be taken out of the JSON is time saved. `WHERE true` tells ON CONFLICT from a join's ON.
const MANY_ALIKE: &str = concat!(
    insert_into!(),
    "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, NULL, NULL, NULL, NULL, NULL,
       value ->> 4, value ->> 5, ?2, ?3, ?4, iif(?4 IS NULL, NULL, ?2), ?5
     FROM jsonb_each(?1) WHERE true
     ON CONFLICT (event_id) DO NOTHING"
);

const MANY: &str = concat!(
    insert_into!(),
    "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 6, value ->> 7, value ->> 8,
       value ->> 9, value ->> 10, coalesce(value ->> 4, unhex(value ->> 11)), value ->> 5, ?2,
       value ->> 12, value ->> 13, iif(value ->> 13 IS NULL, NULL, ?2), value ->> 14
     FROM jsonb_each(?1) WHERE true
     ON CONFLICT (event_id) DO NOTHING"
);

/// What was inserted last has the highest numbers.
pub(super) const LAST_OF: &str = r#"SELECT seq, event_id FROM "{table}"
WHERE event_id IN (SELECT value FROM jsonb_each(?1)) ORDER BY seq DESC LIMIT ?2"#;

/// Inserts rows into the transaction that is open on this connection, and answers their `seq`s; none
/// where the id existed already.
pub(super) async fn insert(
    sql: &Sql,
    connection: &mut SqliteConnection,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, sqlx::Error> {
    let now = Timestamp::now();
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(sql, connection, row, now).await.map(|seq| vec![seq]),
        rows => insert_many(sql, connection, rows, now).await,
    }
}

async fn insert_one(
    sql: &Sql,
    connection: &mut SqliteConnection,
    row: &NewRow,
    now: Timestamp,
) -> Result<Option<i64>, sqlx::Error> {
    let parts = row.event.parts();
    let query = sql
        .query(ONE)
        .bind(parts.id.as_str().to_owned())
        .bind(parts.event_type.to_string())
        .bind(parts.aggregate_type.to_string())
        .bind(parts.aggregate_id.as_deref().map(str::to_owned))
        .bind(parts.tenant_id.as_deref().map(str::to_owned))
        .bind(parts.topic.as_deref().map(str::to_owned))
        .bind(parts.content_type.as_deref().map(str::to_owned))
        .bind(parts.schema_version)
        .bind(headers_json(&row.event));
    let query = match text_payload(&row.event) {
        Some(text) => query.bind(text.to_owned()),
        None => query.bind(parts.payload.to_vec()),
    };
    let lease = row.lease.as_ref();
    let answer = query
        .bind(parts.occurred_at.as_micros())
        .bind(now.as_micros())
        .bind(due_at(row, now).as_micros())
        .bind(lease.map(|lease| lease.owner.as_str().to_owned()))
        .bind(lease.map(|_| now.as_micros()))
        .bind(token(row))
        .execute(connection)
        .await?;
    Ok((answer.rows_affected() == 1).then(|| answer.last_insert_rowid()))
}

async fn insert_many(
    sql: &Sql,
    connection: &mut SqliteConnection,
    rows: &[NewRow],
    now: Timestamp,
) -> Result<Vec<Option<i64>>, sqlx::Error> {
    let query = match alike(rows) {
        Some(first) => sql
            .query(MANY_ALIKE)
            .bind(to_json(rows, usual)?)
            .bind(now.as_micros())
            .bind(due_at(first, now).as_micros())
            .bind(owner(first).map(str::to_owned))
            .bind(token(first)),
        None => sql.query(MANY).bind(to_json(rows, |row| all(row, now))?).bind(now.as_micros()),
    };
    let answer = query.execute(&mut *connection).await?;
    let (inserted, last) = (answer.rows_affected(), answer.last_insert_rowid());
    if inserted == rows.len() as u64 {
        // One statement, one writer, nothing left out: the numbers follow each other.
        return Ok((last - inserted.cast_signed() + 1..=last).map(Some).collect());
    }
    let ids = to_json(rows, |row| row.event.id().as_str())?;
    let written = sql.query(LAST_OF).bind(ids).bind(inserted.cast_signed()).fetch_all(connection).await?;
    let pairs = written.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let mut seqs = pairs.collect::<Result<HashMap<String, i64>, sqlx::Error>>()?;
    // An id that stands twice in one batch was inserted once.
    Ok(rows.iter().map(|row| seqs.remove(row.event.id().as_str())).collect())
}

/// The first row, if it stands for all of them but for the usual columns.
fn alike(rows: &[NewRow]) -> Option<&NewRow> {
    let first = rows.first()?;
    let is_usual = |row: &NewRow| {
        let parts = row.event.parts();
        parts.tenant_id.is_none()
            && parts.topic.is_none()
            && parts.content_type.is_none()
            && parts.schema_version.is_none()
            && parts.headers.is_empty()
            && row.delay.is_none()
            && row.lease.as_ref().map(|lease| (&lease.owner, lease.token, lease.duration))
                == first.lease.as_ref().map(|lease| (&lease.owner, lease.token, lease.duration))
            && text_payload(&row.event).is_some()
    };
    rows.iter().all(is_usual).then_some(first)
}

fn to_json<'r, T: Serialize>(
    rows: &'r [NewRow],
    part: impl Fn(&'r NewRow) -> T,
) -> Result<String, sqlx::Error> {
    let rows: Vec<T> = rows.iter().map(part).collect();
    serde_json::to_string(&rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// The usual columns of a row, as a JSON array in the order that both statements know.
type Usual<'r> = (&'r str, &'r str, &'r str, Option<&'r str>, Option<&'r str>, i64);

fn usual(row: &NewRow) -> Usual<'_> {
    let parts = row.event.parts();
    (
        parts.id.as_str(),
        &parts.event_type,
        &parts.aggregate_type,
        parts.aggregate_id.as_deref(),
        text_payload(&row.event),
        parts.occurred_at.as_micros(),
    )
}

/// All columns of a row: the usual ones, and behind them the others.
fn all(row: &NewRow, now: Timestamp) -> impl Serialize + '_ {
    let parts = row.event.parts();
    let (id, event_type, aggregate_type, aggregate_id, payload, created_at) = usual(row);
    (
        id,
        event_type,
        aggregate_type,
        aggregate_id,
        payload,
        created_at,
        parts.tenant_id.as_deref(),
        parts.topic.as_deref(),
        parts.content_type.as_deref(),
        parts.schema_version,
        headers_json(&row.event),
        payload.is_none().then(|| hex(&parts.payload)),
        due_at(row, now).as_micros(),
        owner(row),
        token(row),
    )
}

fn due_at(row: &NewRow, now: Timestamp) -> Timestamp {
    now + due_in(row)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
