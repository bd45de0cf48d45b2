//! The INSERT: one statement, whether for one event or for a thousand.

use std::collections::HashMap;

use posthaste::writer::NewRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::value::{Time, interval};
use crate::new_row::{due_in, headers_json, owner, text_payload, token};
use crate::sql::Sql;

/// Everything counts from the clock of the statement: the clock of a transaction stands still.
macro_rules! insert_into {
    () => {
        r#"INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at,
  locked_by, lease_token, inserted_at, locked_at) "#
    };
}

macro_rules! one {
    () => {
        concat!(
            insert_into!(),
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, statement_timestamp() + $13, $14, $15,
               statement_timestamp(), CASE WHEN $14 IS NOT NULL THEN statement_timestamp() END)
             ON CONFLICT (event_id) DO NOTHING RETURNING seq, event_id"
        )
    };
}

macro_rules! many {
    () => {
        concat!(
            insert_into!(),
            "SELECT v.id, v.type, v.aggregate_type, v.aggregate_id, v.tenant, v.topic, v.content_type,
               v.version, v.headers, v.payload, v.bytes, v.created_at, statement_timestamp() + v.due, v.owner,
               v.token, statement_timestamp(), CASE WHEN v.owner IS NOT NULL THEN statement_timestamp() END
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
               $8::int8[], $9::text[], $10::text[], $11::bytea[], $12::timestamptz[], $13::interval[],
               $14::text[], $15::int8[]) WITH ORDINALITY
               AS v (id, type, aggregate_type, aggregate_id, tenant, topic, content_type, version, headers,
                 payload, bytes, created_at, due, owner, token, n)
             ORDER BY v.n
             ON CONFLICT (event_id) DO NOTHING RETURNING seq, event_id"
        )
    };
}

/// Rings within the transaction, for those who asked for it.
macro_rules! notifying {
    () => {
        ", pg_notify('{name}', '')"
    };
}

const ONE: &str = one!();
const MANY: &str = many!();
const ONE_NOTIFYING: &str = concat!(one!(), notifying!());
const MANY_NOTIFYING: &str = concat!(many!(), notifying!());

/// Inserts rows into the transaction that is open on this connection, and answers their `seq`s; none
/// where the id existed already.
pub(super) async fn insert(
    sql: &Sql,
    connection: &mut PgConnection,
    rows: &[NewRow],
    notifying: bool,
) -> Result<Vec<Option<i64>>, sqlx::Error> {
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(sql, connection, row, if notifying { ONE_NOTIFYING } else { ONE }).await,
        rows => insert_many(sql, connection, rows, if notifying { MANY_NOTIFYING } else { MANY }).await,
    }
}

async fn insert_one(
    sql: &Sql,
    connection: &mut PgConnection,
    row: &NewRow,
    statement: &'static str,
) -> Result<Vec<Option<i64>>, sqlx::Error> {
    let parts = row.event.parts();
    let text = text_payload(&row.event);
    let inserted = sql
        .query::<Postgres>(statement)
        .bind(parts.id.as_str())
        .bind(&*parts.event_type)
        .bind(&*parts.aggregate_type)
        .bind(parts.aggregate_id.as_deref())
        .bind(parts.tenant_id.as_deref())
        .bind(parts.topic.as_deref())
        .bind(parts.content_type.as_deref())
        .bind(parts.schema_version.map(i64::from))
        .bind(headers_json(&row.event))
        .bind(text)
        .bind(text.is_none().then_some(&*parts.payload))
        .bind(Time(parts.occurred_at))
        .bind(interval(due_in(row)))
        .bind(owner(row))
        .bind(token(row))
        .fetch_optional(connection)
        .await?;
    Ok(vec![inserted.map(|row| row.try_get(0)).transpose()?])
}

async fn insert_many(
    sql: &Sql,
    connection: &mut PgConnection,
    rows: &[NewRow],
    statement: &'static str,
) -> Result<Vec<Option<i64>>, sqlx::Error> {
    let parts = || rows.iter().map(|row| row.event.parts());
    let texts: Vec<_> = rows.iter().map(|row| text_payload(&row.event)).collect();
    let bytes = rows.iter().zip(&texts).map(|(row, text)| text.is_none().then_some(&**row.event.payload()));
    let inserted = sql
        .query::<Postgres>(statement)
        .bind(parts().map(|parts| parts.id.as_str()).collect::<Vec<_>>())
        .bind(parts().map(|parts| &*parts.event_type).collect::<Vec<_>>())
        .bind(parts().map(|parts| &*parts.aggregate_type).collect::<Vec<_>>())
        .bind(parts().map(|parts| parts.aggregate_id.as_deref()).collect::<Vec<_>>())
        .bind(parts().map(|parts| parts.tenant_id.as_deref()).collect::<Vec<_>>())
        .bind(parts().map(|parts| parts.topic.as_deref()).collect::<Vec<_>>())
        .bind(parts().map(|parts| parts.content_type.as_deref()).collect::<Vec<_>>())
        .bind(parts().map(|parts| parts.schema_version.map(i64::from)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| headers_json(&row.event)).collect::<Vec<_>>())
        .bind(&texts)
        .bind(bytes.collect::<Vec<_>>())
        .bind(parts().map(|parts| Time(parts.occurred_at)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| interval(due_in(row))).collect::<Vec<_>>())
        .bind(rows.iter().map(owner).collect::<Vec<_>>())
        .bind(rows.iter().map(token).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    // What RETURNING answers has no order.
    let pairs = inserted.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let mut seqs = pairs.collect::<Result<HashMap<&str, i64>, sqlx::Error>>()?;
    // An id that stands twice in one batch was inserted once.
    Ok(rows.iter().map(|row| seqs.remove(row.event.id().as_str())).collect())
}
