//! What operators ask of a foreign table. Everything reads a bounded number of rows, as far as its indexes allow.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Stats};
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::columns::{of_event, of_row, time};
use super::{LayoutTable, MySqlQuery};
use crate::layout::counts::{Counts, MOST_COUNTED};
use crate::layout::filter::{Conditions, Value};
use crate::layout::{Field, State};
use crate::probe::count;
use crate::row::{detail, view};
use crate::sql::ready;

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// What is done to rows that were given up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Revive,
    Delete,
}

fn bound(text: String, values: Vec<Value>) -> MySqlQuery {
    let text: Arc<str> = text.into();
    // Not kept by the server: nobody asks the same twice.
    values.into_iter().fold(ready::<MySql>(&text).persistent(false), |query, value| match value {
        Value::Text(text) => query.bind(text),
        Value::Micros(micros) => query.bind(micros),
    })
}

/// How long before now, both in microseconds since 1970.
fn age(row: &MySqlRow, now: usize, then: usize) -> Result<Option<Duration>, sqlx::Error> {
    let (now, then): (i64, Option<i64>) = (row.try_get(now)?, row.try_get(then)?);
    Ok(then.map(|then| Timestamp::from_micros(now).since(Timestamp::from_micros(then))))
}

pub(super) async fn oldest(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
) -> Result<Option<Duration>, sqlx::Error> {
    let words = &table.words;
    if words.column(Field::CreatedAt).is_none() {
        return Ok(None);
    }
    let text = format!(
        "SELECT {NOW}, {} FROM {} AS t WHERE {} ORDER BY {} LIMIT 1",
        time(words, Field::CreatedAt),
        table.texts.table,
        words.is(State::Pending),
        words.order()
    );
    let row = bound(text, Vec::new()).fetch_optional(connection).await?;
    row.map_or(Ok(None), |row| age(&row, 0, 1))
}

pub(super) async fn stats(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
) -> Result<Stats, sqlx::Error> {
    let (words, name) = (&table.words, &table.texts.table);
    let counts = State::ALL.map(|state| {
        let condition = words.is(state);
        format!("(SELECT COUNT(*) FROM (SELECT 1 FROM {name} AS t WHERE {condition} LIMIT {MOST_COUNTED}) AS counted)")
    });
    let total = "(SELECT CAST(COALESCE(MAX(table_rows), 0) AS SIGNED) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name = ?)";
    let text = format!("SELECT {}, {total}", counts.join(", "));
    let row = bound(text, vec![Value::Text(table.lock.clone())]).fetch_one(&mut *connection).await?;
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
    connection: &mut MySqlConnection,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, sqlx::Error> {
    let words = &table.words;
    let key = match by {
        BacklogBy::Type => format!("CONCAT(COALESCE(aggregate_type, '{GLOBAL}'), ':', event_type)"),
        BacklogBy::Tenant => "tenant_id".to_owned(),
    };
    let text = format!(
        "SELECT {key} AS grouping_key, COUNT(*) AS total, MIN(created_at), {NOW}
FROM (SELECT {} FROM {} AS t WHERE {} ORDER BY {} LIMIT {}) AS o
GROUP BY grouping_key ORDER BY total DESC, grouping_key",
        of_row(words),
        table.texts.table,
        words.is(State::Pending),
        words.order(),
        Backlog::LOOK + 1
    );
    let rows = bound(text, Vec::new()).fetch_all(connection).await?;
    let groups = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let looked_at: u64 = groups.iter().map(|group| group.count).sum();
    Ok(Backlog::largest(groups, limit, looked_at > Backlog::LOOK as u64))
}

fn group(row: &MySqlRow) -> Result<BacklogGroup, sqlx::Error> {
    Ok(BacklogGroup { key: row.try_get(0)?, count: count(row, 1)?, oldest: age(row, 3, 2)? })
}

pub(super) async fn count_rows(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
    filter: &Filter,
) -> Result<u64, sqlx::Error> {
    let conditions = Conditions::new(&table.words, filter);
    let text = format!("SELECT COUNT(*) FROM {} AS t WHERE {}", table.texts.table, conditions.text());
    count(&bound(text, conditions.values).fetch_one(connection).await?, 0)
}

pub(super) async fn list(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
    filter: &Filter,
    from: i64,
    limit: usize,
) -> Result<Vec<EventRow>, sqlx::Error> {
    let words = &table.words;
    let conditions = Conditions::new(words, filter);
    let text = format!(
        "SELECT {} FROM {} AS t WHERE {} ORDER BY {}, {} LIMIT {limit} OFFSET {from}",
        of_row(words),
        table.texts.table,
        conditions.text(),
        words.order(),
        key_names(table)
    );
    Ok(bound(text, conditions.values).fetch_all(connection).await?.iter().map(view).collect())
}

pub(super) async fn get(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
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
    connection: &mut MySqlConnection,
    limit: usize,
) -> Result<Vec<DeadGroup>, sqlx::Error> {
    let words = &table.words;
    let text = format!(
        "SELECT COALESCE(aggregate_type, '{GLOBAL}') AS aggregate, COALESCE(event_type, '') AS kind,
  COALESCE(LEFT(last_error, 200), '') AS reason, COUNT(*) AS total, MIN(created_at), MAX(created_at)
FROM (SELECT {} FROM {} AS t WHERE {} ORDER BY {} DESC LIMIT 10000) AS dead
GROUP BY aggregate, kind, reason ORDER BY total DESC, kind, reason LIMIT {limit}",
        of_row(words),
        table.texts.table,
        words.is(State::Failed),
        words.order()
    );
    bound(text, Vec::new()).fetch_all(connection).await?.iter().map(dead_group).collect()
}

fn dead_group(row: &MySqlRow) -> Result<DeadGroup, sqlx::Error> {
    let time = |index: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(index)?.map(Timestamp::from_micros))
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
    connection: &mut MySqlConnection,
    filter: &Filter,
    limit: usize,
    change: Change,
) -> Result<u64, sqlx::Error> {
    let conditions = Conditions::new(&table.words, filter);
    let what = match change {
        Change::Revive => {
            format!("UPDATE {} AS t SET {}", table.texts.table, table.words.set(State::Pending, "NULL"))
        }
        Change::Delete => format!("DELETE t FROM {} AS t", table.texts.table),
    };
    changed(table, connection, &what, conditions, limit).await
}

/// Changes the oldest rows that match. Which ones stands in a subquery of its own, because the server can neither
/// limit a change of several tables nor look into the table that it changes.
async fn changed(
    table: &LayoutTable,
    connection: &mut MySqlConnection,
    what: &str,
    conditions: Conditions,
    limit: usize,
) -> Result<u64, sqlx::Error> {
    let (names, condition) = (key_names(table), conditions.text());
    let aliased =
        table.words.key().into_iter().enumerate().map(|(n, (column, _))| format!("{column} AS k{n}"));
    let inner: Vec<String> = (0..table.words.key().len()).map(|n| format!("k{n}")).collect();
    let picked = format!(
        "SELECT {} FROM {} AS t WHERE {condition} ORDER BY {} LIMIT {}",
        aliased.collect::<Vec<_>>().join(", "),
        table.texts.table,
        table.words.order(),
        super::limit(limit)
    );
    let text = format!("{what} WHERE ({names}) IN (SELECT {} FROM ({picked}) AS picked)", inner.join(", "));
    Ok(bound(text, conditions.values).execute(connection).await?.rows_affected())
}

fn key_names(table: &LayoutTable) -> String {
    table.words.key().into_iter().map(|(column, _)| column).collect::<Vec<_>>().join(", ")
}

pub(super) async fn purge(table: &LayoutTable, purge: &Purge) -> Result<u64, StoreError> {
    let words = &table.words;
    let unsupported = |operation| StoreError::Unsupported { store: "MySQL layout", operation };
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
    let what = match archive {
        true => {
            let error = words.layout.column_of(Field::Error).map(|name| format!("`{name}`"));
            format!(
                "UPDATE {} AS t SET {}",
                table.texts.table,
                words.set(State::Archived, &error.unwrap_or_default())
            )
        }
        false => format!("DELETE t FROM {} AS t", table.texts.table),
    };
    table.anywhere(async |connection| changed(table, connection, &what, conditions, purge.limit).await).await
}
