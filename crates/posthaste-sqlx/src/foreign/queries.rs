//! What an operator, a purge and the engine's gauges ask of a foreign table. Everything reads a bounded number of rows,
//! as far as its indexes allow.

use std::time::Duration;

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Stats};
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};

use super::columns::{of_event, of_row};
use super::filter::Conditions;
use super::foreign_table::ForeignTable;
use super::server::Caller;
use super::session::QueryRow;
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

impl ForeignTable {
    pub(super) async fn oldest(&self, caller: Caller) -> Result<Option<Duration>, StoreError> {
        let resolved = self.resolved();
        if resolved.column(Field::CreatedAt).is_none() {
            return Ok(None);
        }
        let (now, created_at) = (resolved.dialect.now, resolved.time(Field::CreatedAt));
        let columns = format!("{now} AS store_now, {created_at} AS created_at");
        let text = resolved.oldest_first(&columns, &resolved.is(State::Pending), "LIMIT 1");
        let rows = self.query(caller, text, Vec::new()).await?;
        Ok(rows.first().and_then(|row| age(&**row, "created_at")))
    }

    pub(super) async fn stats(&self) -> Result<Stats, StoreError> {
        let resolved = self.resolved();
        let counts = State::ALL.map(|state| {
            let (table, condition) = (&resolved.table, resolved.is(state));
            let some = format!("SELECT 1 FROM {table} AS t WHERE {condition} LIMIT {MAX_COUNTED_ROWS}");
            format!("(SELECT count(*) FROM ({some}) AS counted) AS {}", state.name())
        });
        let text = format!("SELECT {}, ({}) AS total", counts.join(", "), resolved.dialect.total);
        let rows = self.query(Caller::Operator, text, vec![resolved.name_in_catalogue()]).await?;
        let count = |column: &str| rows.first().map_or(0, |row| number(&**row, column));
        let counts = Counts {
            pending: count("pending"),
            sent: count("sent"),
            failed: count("failed"),
            archived: count("archived"),
            total: count("total"),
        };
        Ok(Stats { oldest_pending: self.oldest(Caller::Operator).await?, ..counts.stats() })
    }

    pub(super) async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        let resolved = self.resolved();
        let key = match by {
            BacklogBy::Type => format!("concat(coalesce(aggregate_type, '{GLOBAL}'), ':', event_type)"),
            BacklogBy::Tenant => "tenant_id".to_owned(),
        };
        let limited = format!("LIMIT {}", Backlog::MAX_ROWS + 1);
        let oldest = resolved.oldest_first(&of_row(resolved), &resolved.is(State::Pending), &limited);
        let text = format!(
            "SELECT {key} AS group_key, count(*) AS events, min(created_at) AS first, {} AS store_now \
             FROM ({oldest}) AS o GROUP BY 1 ORDER BY 2 DESC, 1",
            resolved.dialect.now
        );
        let rows = self.query(Caller::Operator, text, Vec::new()).await?;
        let groups: Vec<BacklogGroup> = rows.iter().map(|row| group(&**row)).collect();
        let looked_at: u64 = groups.iter().map(|group| group.count).sum();
        Ok(Backlog::largest(groups, limit, looked_at > Backlog::MAX_ROWS as u64))
    }

    pub(super) async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let conditions = self.conditions(filter);
        let (table, condition) = (&self.resolved().table, conditions.text());
        let text = format!("SELECT count(*) AS events FROM {table} AS t WHERE {condition}");
        let rows = self.query(Caller::Operator, text, conditions.values).await?;
        Ok(rows.first().map_or(0, |row| number(&**row, "events")))
    }

    /// Rows that match, from the place `from` of that list on.
    pub(super) async fn list(
        &self,
        filter: &Filter,
        from: i64,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        let resolved = self.resolved();
        let conditions = self.conditions(filter);
        let rest = format!(", {} LIMIT {limit} OFFSET {from}", resolved.key_names());
        let text = resolved.oldest_first(&of_row(resolved), &conditions.text(), &rest);
        let rows = self.query(Caller::Operator, text, conditions.values).await?;
        Ok(rows.iter().map(|row| view(&**row)).collect())
    }

    pub(super) async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        let resolved = self.resolved();
        let conditions = self.conditions(&Filter::id(id.clone()));
        // Columns that both have are the same.
        let (row, event, table) = (of_row(resolved), of_event(resolved), &resolved.table);
        let text = format!("SELECT {row}, {event} FROM {table} AS t WHERE {} LIMIT 1", conditions.text());
        let rows = self.query(Caller::Operator, text, conditions.values).await?;
        Ok(rows.first().map(|row| detail(&**row)))
    }

    pub(super) async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        let resolved = self.resolved();
        let is_dead = resolved.is(State::Failed);
        let dead = resolved.oldest_first(&of_row(resolved), &is_dead, "DESC LIMIT 10000");
        let text = format!(
            "SELECT coalesce(aggregate_type, '{GLOBAL}') AS aggregate, coalesce(event_type, '') AS kind,
  coalesce(left(last_error, 200), '') AS reason, count(*) AS events, min(created_at) AS first, max(created_at) AS last
FROM ({dead}) AS dead GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT {limit}"
        );
        let rows = self.query(Caller::Operator, text, Vec::new()).await?;
        Ok(rows.iter().map(|row| dead_group(&**row)).collect())
    }

    /// Rows that were given up and match wait again.
    pub(super) async fn revive(&self, filter: &Filter, limit: usize) -> Result<u64, StoreError> {
        let (conditions, set) = (self.conditions(filter), self.resolved().set(State::Pending, "NULL"));
        self.change_oldest(Caller::Operator, conditions, State::Failed, limit, Some(&set)).await
    }

    /// Rows that were given up and match are deleted.
    pub(super) async fn discard(&self, filter: &Filter, limit: usize) -> Result<u64, StoreError> {
        self.change_oldest(Caller::Operator, self.conditions(filter), State::Failed, limit, None).await
    }

    pub(super) async fn purge(&self, caller: Caller, purge: &Purge) -> Result<u64, StoreError> {
        let resolved = self.resolved();
        let state = match purge.what {
            Purgeable::Done => State::Sent,
            Purgeable::Dead => State::Failed,
            Purgeable::Archived => State::Archived,
            Purgeable::Any => return Err(resolved.unsupported("purge rows of any status")),
        };
        let archive = purge.archive && state != State::Archived;
        if archive && resolved.layout.value_of(State::Archived).is_none() {
            return Err(resolved.unsupported("archive: its layout has no status for that"));
        }
        let mut conditions = Conditions::default().and(resolved.is(state));
        conditions.older_than(resolved, purge.older_than);
        // An archived row keeps its error.
        let error = resolved.bare(Field::Error).map(|(column, _)| column).unwrap_or_default();
        let set = archive.then(|| resolved.set(State::Archived, &error));
        self.change_oldest(caller, conditions, state, purge.limit, set.as_deref()).await
    }

    fn conditions(&self, filter: &Filter) -> Conditions {
        Conditions::new(self.resolved(), filter)
    }

    /// Sets something in the oldest rows of a state that match, or deletes them.
    async fn change_oldest(
        &self,
        caller: Caller,
        conditions: Conditions,
        state: State,
        limit: usize,
        set: Option<&str>,
    ) -> Result<u64, StoreError> {
        let resolved = self.resolved();
        let keys = resolved.key().into_iter().enumerate();
        let named: Vec<String> = keys.map(|(n, (column, _))| format!("{column} AS k{n}")).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let picked = resolved.oldest_first(&named.join(", "), &conditions.text(), &format!("LIMIT {limit}"));
        self.change(caller, (resolved.dialect.change)(resolved, state, set, &picked), conditions.values).await
    }
}

fn group(row: &QueryRow) -> BacklogGroup {
    BacklogGroup { key: text(row, "group_key"), count: number(row, "events"), oldest: age(row, "first") }
}

fn dead_group(row: &QueryRow) -> DeadGroup {
    DeadGroup {
        aggregate_type: text(row, "aggregate").unwrap_or_default(),
        event_type: text(row, "kind").unwrap_or_default(),
        reason: text(row, "reason").unwrap_or_default(),
        count: number(row, "events"),
        first: time(row, "first"),
        last: time(row, "last"),
    }
}
