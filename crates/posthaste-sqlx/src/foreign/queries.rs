//! Queries of operators, and of the engine's gauges, about a foreign table. Everything reads a bounded number of rows, as far as
//! its indexes allow.

use std::time::Duration;

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Stats};
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};

use super::filter::Conditions;
use super::foreign_table::{BoundQuery, Caller, ForeignTable, QueryRow};
use super::resolved_layout::RowChange;
use super::stats::{Counts, MAX_COUNTED_ROWS};
use super::{Field, State};
use crate::row::{detail, view};

/// A number of an answer. What is no number counts as none.
fn number(row: &QueryRow, column: &str) -> u64 {
    row.number(column).ok().flatten().unwrap_or_default().unsigned_abs()
}

fn text(row: &QueryRow, column: &str) -> Option<String> {
    row.text(column).ok().flatten().map(str::to_owned)
}

fn time(row: &QueryRow, column: &str) -> Option<Timestamp> {
    row.time(column).ok().flatten()
}

/// How long before `store_now` it was.
fn age(row: &QueryRow, column: &str) -> Option<Duration> {
    Some(time(row, "store_now")?.since(time(row, column)?))
}

/// The rows of a state, oldest first, with a condition of their own where there is one.
fn oldest_first(table: &dyn ForeignTable, columns: &str, condition: &str, rest: &str) -> String {
    let order = table.resolved().order();
    format!("SELECT {columns} FROM {} AS t WHERE {condition} ORDER BY {order} {rest}", table.name())
}

pub(super) async fn oldest(table: &dyn ForeignTable, caller: Caller) -> Result<Option<Duration>, StoreError> {
    let resolved = table.resolved();
    if resolved.column(Field::CreatedAt).is_none() {
        return Ok(None);
    }
    let created_at = (resolved.dialect.time)(resolved, Field::CreatedAt);
    let columns = format!("{} AS store_now, {created_at} AS created_at", resolved.dialect.now);
    let text = oldest_first(table, &columns, &resolved.is(State::Pending), "LIMIT 1");
    Ok(table.query(caller, BoundQuery::new(text)).await?.first().and_then(|row| age(&**row, "created_at")))
}

pub(super) async fn stats(table: &dyn ForeignTable) -> Result<Stats, StoreError> {
    let resolved = table.resolved();
    let counts = State::ALL.map(|state| {
        let (name, condition) = (table.name(), resolved.is(state));
        format!(
            "(SELECT count(*) FROM (SELECT 1 FROM {name} AS t WHERE {condition} LIMIT {MAX_COUNTED_ROWS}) AS counted) AS {}",
            state.name()
        )
    });
    let text = format!("SELECT {}, ({}) AS total", counts.join(", "), resolved.dialect.total);
    let rows = table.query(Caller::Operator, BoundQuery { text, values: vec![table.bare_name()] }).await?;
    let count = |column: &str| rows.first().map_or(0, |row| number(&**row, column));
    let counts = Counts {
        pending: count("pending"),
        sent: count("sent"),
        failed: count("failed"),
        archived: count("archived"),
        total: count("total"),
    };
    let mut stats = counts.stats();
    stats.oldest_pending = oldest(table, Caller::Operator).await?;
    Ok(stats)
}

pub(super) async fn backlog(
    table: &dyn ForeignTable,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, StoreError> {
    let resolved = table.resolved();
    let key = match by {
        BacklogBy::Type => format!("concat(coalesce(aggregate_type, '{GLOBAL}'), ':', event_type)"),
        BacklogBy::Tenant => "tenant_id".to_owned(),
    };
    let columns = (resolved.dialect.of_row)(resolved);
    let limited = format!("LIMIT {}", Backlog::MAX_ROWS + 1);
    let oldest = oldest_first(table, &columns, &resolved.is(State::Pending), &limited);
    let text = format!(
        "SELECT {key} AS group_key, count(*) AS events, min(created_at) AS first, {} AS store_now FROM ({oldest}) AS o \
         GROUP BY 1 ORDER BY 2 DESC, 1",
        resolved.dialect.now
    );
    let rows = table.query(Caller::Operator, BoundQuery::new(text)).await?;
    let groups: Vec<BacklogGroup> = rows.iter().map(|row| group(&**row)).collect();
    let looked_at: u64 = groups.iter().map(|group| group.count).sum();
    Ok(Backlog::largest(groups, limit, looked_at > Backlog::MAX_ROWS as u64))
}

fn group(row: &QueryRow) -> BacklogGroup {
    BacklogGroup::new(text(row, "group_key"), number(row, "events"), age(row, "first"))
}

pub(super) async fn count(table: &dyn ForeignTable, filter: &Filter) -> Result<u64, StoreError> {
    let conditions = Conditions::new(table.resolved(), filter);
    let text = format!("SELECT count(*) AS events FROM {} AS t WHERE {}", table.name(), conditions.text());
    let rows = table.query(Caller::Operator, BoundQuery { text, values: conditions.values }).await?;
    Ok(rows.first().map_or(0, |row| number(&**row, "events")))
}

/// Rows that match, from the place `from` of that list on.
pub(super) async fn list(
    table: &dyn ForeignTable,
    filter: &Filter,
    from: i64,
    limit: usize,
) -> Result<Vec<EventRow>, StoreError> {
    let resolved = table.resolved();
    let conditions = Conditions::new(resolved, filter);
    let rest = format!(", {} LIMIT {limit} OFFSET {from}", resolved.key_names());
    let text = oldest_first(table, &(resolved.dialect.of_row)(resolved), &conditions.text(), &rest);
    let rows = table.query(Caller::Operator, BoundQuery { text, values: conditions.values }).await?;
    Ok(rows.iter().map(|row| view(&**row)).collect())
}

pub(super) async fn get(table: &dyn ForeignTable, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
    let resolved = table.resolved();
    let conditions = Conditions::new(resolved, &Filter::id(id.clone()));
    // Columns that both have are the same.
    let (row, event) = ((resolved.dialect.of_row)(resolved), (resolved.dialect.of_event)(resolved));
    let text =
        format!("SELECT {row}, {event} FROM {} AS t WHERE {} LIMIT 1", table.name(), conditions.text());
    let rows = table.query(Caller::Operator, BoundQuery { text, values: conditions.values }).await?;
    Ok(rows.first().map(|row| detail(&**row)))
}

pub(super) async fn dead_groups(
    table: &dyn ForeignTable,
    limit: usize,
) -> Result<Vec<DeadGroup>, StoreError> {
    let resolved = table.resolved();
    let dead = oldest_first(
        table,
        &(resolved.dialect.of_row)(resolved),
        &resolved.is(State::Failed),
        "DESC LIMIT 10000",
    );
    let text = format!(
        "SELECT coalesce(aggregate_type, '{GLOBAL}') AS aggregate, coalesce(event_type, '') AS kind,
  coalesce(left(last_error, 200), '') AS reason, count(*) AS events, min(created_at) AS first, max(created_at) AS last
FROM ({dead}) AS dead GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT {limit}"
    );
    let rows = table.query(Caller::Operator, BoundQuery::new(text)).await?;
    Ok(rows.iter().map(|row| dead_group(&**row)).collect())
}

fn dead_group(row: &QueryRow) -> DeadGroup {
    let text = |column: &str| text(row, column).unwrap_or_default();
    let (first, last) = (time(row, "first"), time(row, "last"));
    DeadGroup::new(text("aggregate"), text("kind"), text("reason")).with_deaths(
        number(row, "events"),
        first,
        last,
    )
}

/// Rows that match wait again.
pub(super) async fn revive(
    table: &dyn ForeignTable,
    filter: &Filter,
    limit: usize,
) -> Result<u64, StoreError> {
    let set = table.resolved().set(State::Pending, "NULL");
    change(
        table,
        Caller::Operator,
        Conditions::new(table.resolved(), filter),
        State::Failed,
        limit,
        Some(set),
    )
    .await
}

/// Rows that match are deleted.
pub(super) async fn discard(
    table: &dyn ForeignTable,
    filter: &Filter,
    limit: usize,
) -> Result<u64, StoreError> {
    change(table, Caller::Operator, Conditions::new(table.resolved(), filter), State::Failed, limit, None)
        .await
}

pub(super) async fn purge(
    table: &dyn ForeignTable,
    caller: Caller,
    purge: &Purge,
) -> Result<u64, StoreError> {
    let resolved = table.resolved();
    let unsupported = |operation| StoreError::Unsupported { store: resolved.dialect.store, operation };
    let state = match purge.what {
        Purgeable::Done => State::Sent,
        Purgeable::Dead => State::Failed,
        Purgeable::Archived => State::Archived,
        Purgeable::Any => return Err(unsupported("purge rows of any status")),
    };
    let archive = purge.archive && state != State::Archived;
    if archive && resolved.layout.value_of(State::Archived).is_none() {
        return Err(unsupported("archive: its layout has no status for that"));
    }
    let mut conditions = Conditions::default().and(resolved.is(state));
    conditions.older_than(resolved, purge.older_than);
    // An archived row keeps its error.
    let error = resolved.bare(Field::Error).map(|(column, _)| column).unwrap_or_default();
    let set = archive.then(|| resolved.set(State::Archived, &error));
    change(table, caller, conditions, state, purge.limit, set).await
}

/// Sets something in the oldest rows of a state that match, or deletes them.
async fn change(
    table: &dyn ForeignTable,
    caller: Caller,
    conditions: Conditions,
    state: State,
    limit: usize,
    set: Option<String>,
) -> Result<u64, StoreError> {
    let keys: Vec<String> = table.resolved().key().into_iter().map(|(column, _)| column).collect();
    let named: Vec<String> = keys.iter().enumerate().map(|(n, column)| format!("{column} AS k{n}")).collect();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let picked = oldest_first(table, &named.join(", "), &conditions.text(), &format!("LIMIT {limit}"));
    let guard = table.resolved().is(state);
    let row_change = RowChange { table: table.name().to_owned(), set, picked, guard, keys };
    let text = (table.resolved().dialect.change)(&row_change);
    table.change(caller, BoundQuery { text, values: conditions.values }).await
}
