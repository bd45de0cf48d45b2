//! What operators ask of a foreign table. Everything reads a bounded number of rows, as far as its indexes allow.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Stats};
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};

use super::columns::{of_event, of_row, time};
use super::{LayoutTable, Time, value};
use crate::layout::counts::{Counts, MOST_COUNTED};
use crate::layout::filter::{Conditions, Value};
use crate::layout::{Field, State};
use crate::probe::count;
use crate::row::{detail, view};
use crate::sql::ready;

/// What is done to rows that were given up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Revive,
    Delete,
}

fn bound(text: String, values: Vec<Value>) -> Query<'static, Postgres, PgArguments> {
    let text: Arc<str> = text.into();
    // Planned anew each time: nobody asks the same twice.
    values.into_iter().fold(ready::<Postgres>(&text).persistent(false), |query, value| match value {
        Value::Text(text) => query.bind(value::text(&text).into_owned()),
        Value::Micros(micros) => query.bind(micros),
    })
}

pub(super) async fn oldest(
    table: &LayoutTable,
    connection: &mut PgConnection,
) -> Result<Option<Duration>, sqlx::Error> {
    let words = &table.words;
    if words.column(Field::CreatedAt).is_none() {
        return Ok(None);
    }
    let text = format!(
        "SELECT statement_timestamp(), {} FROM {} AS t WHERE {} ORDER BY {} LIMIT 1",
        time(words, Field::CreatedAt),
        table.texts.table,
        words.is(State::Pending),
        words.order()
    );
    let Some(row) = bound(text, Vec::new()).fetch_optional(connection).await? else { return Ok(None) };
    let (now, oldest): (Time, Option<Time>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(oldest.map(|oldest| now.0.since(oldest.0)))
}

pub(super) async fn stats(table: &LayoutTable, connection: &mut PgConnection) -> Result<Stats, sqlx::Error> {
    let (words, name) = (&table.words, &table.texts.table);
    let counts = State::ALL.map(|state| {
        let condition = words.is(state);
        format!("(SELECT count(*) FROM (SELECT FROM {name} AS t WHERE {condition} LIMIT {MOST_COUNTED}) AS counted)")
    });
    let total = "(SELECT greatest(reltuples, 0)::int8 FROM pg_class WHERE oid = to_regclass($1))";
    let text = format!("SELECT {}, {total}", counts.join(", "));
    let row = bound(text, vec![Value::Text(name.clone())]).fetch_one(&mut *connection).await?;
    let counts = Counts {
        pending: count(&row, 0)?,
        sent: count(&row, 1)?,
        failed: count(&row, 2)?,
        archived: count(&row, 3)?,
        total: count(&row, 4)?,
    };
    Ok(Stats { oldest_pending: oldest(table, connection).await?, ..counts.stats() })
}

pub(super) async fn backlog(
    table: &LayoutTable,
    connection: &mut PgConnection,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, sqlx::Error> {
    let words = &table.words;
    let key = match by {
        BacklogBy::Type => format!("coalesce(aggregate_type, '{GLOBAL}') || ':' || event_type"),
        BacklogBy::Tenant => "tenant_id".to_owned(),
    };
    let text = format!(
        "SELECT {key} AS key, count(*), min(created_at), statement_timestamp(), sum(count(*)) OVER ()::int8
FROM (SELECT {} FROM {} AS t WHERE {} ORDER BY {} LIMIT {}) AS o GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {}",
        of_row(words),
        table.texts.table,
        words.is(State::Pending),
        words.order(),
        Backlog::LOOK + 1,
        limit + 1
    );
    let rows = bound(text, Vec::new()).fetch_all(connection).await?;
    let looked_at = rows.first().map_or(Ok(0), |row| count(row, 4))?;
    let groups = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    Ok(Backlog::largest(groups, limit, looked_at > Backlog::LOOK as u64))
}

fn group(row: &PgRow) -> Result<BacklogGroup, sqlx::Error> {
    let (oldest, now): (Option<Time>, Time) = (row.try_get(2)?, row.try_get(3)?);
    let oldest = oldest.map(|oldest| now.0.since(oldest.0));
    Ok(BacklogGroup { key: row.try_get(0)?, count: count(row, 1)?, oldest })
}

pub(super) async fn count_rows(
    table: &LayoutTable,
    connection: &mut PgConnection,
    filter: &Filter,
) -> Result<u64, sqlx::Error> {
    let conditions = Conditions::new(&table.words, filter);
    let text = format!("SELECT count(*) FROM {} AS t WHERE {}", table.texts.table, conditions.text());
    count(&bound(text, conditions.values).fetch_one(connection).await?, 0)
}

pub(super) async fn list(
    table: &LayoutTable,
    connection: &mut PgConnection,
    filter: &Filter,
    from: i64,
    limit: usize,
) -> Result<Vec<EventRow>, sqlx::Error> {
    let words = &table.words;
    let conditions = Conditions::new(words, filter);
    let text = format!(
        "SELECT {} FROM {} AS t WHERE {} ORDER BY {}, {} OFFSET {from} LIMIT {limit}",
        of_row(words),
        table.texts.table,
        conditions.text(),
        words.order(),
        words.key().into_iter().map(|(column, _)| column).collect::<Vec<_>>().join(", ")
    );
    Ok(bound(text, conditions.values).fetch_all(connection).await?.iter().map(view).collect())
}

pub(super) async fn get(
    table: &LayoutTable,
    connection: &mut PgConnection,
    id: &EventId,
) -> Result<Option<EventDetail>, sqlx::Error> {
    let words = &table.words;
    let conditions = Conditions::new(words, &Filter::id(id.clone()));
    // Columns that both have are the same.
    let (row, event) = (of_row(words), of_event(words));
    let text =
        format!("SELECT {row}, {event} FROM {} AS t WHERE {} LIMIT 1", table.texts.table, conditions.text());
    Ok(bound(text, conditions.values).fetch_optional(connection).await?.as_ref().map(detail))
}

pub(super) async fn dead_groups(
    table: &LayoutTable,
    connection: &mut PgConnection,
    limit: usize,
) -> Result<Vec<DeadGroup>, sqlx::Error> {
    let words = &table.words;
    let text = format!(
        "SELECT coalesce(aggregate_type, '{GLOBAL}'), coalesce(event_type, ''), coalesce(left(last_error, 200), ''),
  count(*) AS total, min(created_at), max(created_at)
FROM (SELECT {} FROM {} AS t WHERE {} ORDER BY {} DESC LIMIT 10000) AS dead
GROUP BY 1, 2, 3 ORDER BY total DESC, 2, 3 LIMIT {limit}",
        of_row(words),
        table.texts.table,
        words.is(State::Failed),
        words.order()
    );
    bound(text, Vec::new()).fetch_all(connection).await?.iter().map(dead_group).collect()
}

fn dead_group(row: &PgRow) -> Result<DeadGroup, sqlx::Error> {
    let time = |index: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row.try_get::<Option<Time>, _>(index)?.map(|time| time.0))
    };
    Ok(DeadGroup {
        aggregate_type: row.try_get(0)?,
        event_type: row.try_get(1)?,
        reason: row.try_get(2)?,
        count: count(row, 3)?,
        first: time(4)?,
        last: time(5)?,
    })
}

pub(super) async fn change(
    table: &LayoutTable,
    connection: &mut PgConnection,
    filter: &Filter,
    limit: usize,
    change: Change,
) -> Result<u64, sqlx::Error> {
    let conditions = Conditions::new(&table.words, filter);
    let picked = picked(table, &conditions, limit);
    let what = match change {
        Change::Revive => {
            let set = table.words.set(State::Pending, "NULL");
            format!("UPDATE {} AS t SET {set} FROM picked", table.texts.table)
        }
        Change::Delete => format!("DELETE FROM {} AS t USING picked", table.texts.table),
    };
    let text = format!("{picked} {what} WHERE {}", same_as_picked(table));
    Ok(bound(text, conditions.values).execute(connection).await?.rows_affected())
}

/// The keys of some rows, oldest first, which nobody else changes meanwhile.
fn picked(table: &LayoutTable, conditions: &Conditions, limit: usize) -> String {
    let keys = table.words.key().into_iter().enumerate().map(|(n, (column, _))| format!("{column} AS k{n}"));
    format!(
        "WITH picked AS MATERIALIZED (SELECT {} FROM {} AS t WHERE {} ORDER BY {} LIMIT {} FOR UPDATE SKIP LOCKED)",
        keys.collect::<Vec<_>>().join(", "),
        table.texts.table,
        conditions.text(),
        table.words.order(),
        value::limit(limit)
    )
}

fn same_as_picked(table: &LayoutTable) -> String {
    let keys =
        table.words.key().into_iter().enumerate().map(|(n, (column, _))| format!("{column} = picked.k{n}"));
    keys.collect::<Vec<_>>().join(" AND ")
}

pub(super) async fn purge(table: &LayoutTable, purge: &Purge) -> Result<u64, StoreError> {
    let words = &table.words;
    let unsupported = |operation| StoreError::Unsupported { store: "PostgreSQL layout", operation };
    let state = match purge.what {
        Purgeable::Done => State::Sent,
        Purgeable::Dead => State::Failed,
        Purgeable::Archived => State::Archived,
        Purgeable::Any => return Err(unsupported("purge rows of any status")),
    };
    let archive = purge.archive && state != State::Archived;
    if archive && words.layout.value_of(State::Archived).is_none() {
        return Err(unsupported("archive: its layout has no status for that"));
    }
    let mut conditions = Conditions::default().and(words.is(state));
    conditions.older_than(words, purge.older_than);
    let picked = picked(table, &conditions, purge.limit);
    let what = match archive {
        true => {
            let error = words.layout.column_of(Field::Error).map(|name| format!("\"{name}\""));
            let set = words.set(State::Archived, &error.unwrap_or_default());
            format!("UPDATE {} AS t SET {set} FROM picked", table.texts.table)
        }
        false => format!("DELETE FROM {} AS t USING picked", table.texts.table),
    };
    let text = format!("{picked} {what} WHERE {}", same_as_picked(table));
    let done = async |connection: &mut PgConnection| bound(text, conditions.values).execute(connection).await;
    Ok(table.anywhere(done).await?.rows_affected())
}
