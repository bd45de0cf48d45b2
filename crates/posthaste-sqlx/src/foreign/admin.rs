//! Operator calls on a foreign table. A foreign table has no audit table, so changes by operators are logged.

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Finding, Page, PageRequest,
    Replay, RowObservations, Stats, Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, Status, StoreError};

use super::columns::{of_event, of_row};
use super::filter::Conditions;
use super::oldest_rows::{age, number, text, time};
use super::server::Caller;
use super::session::{BindValue, QueryRow};
use super::stats::{Counts, MAX_COUNTED_ROWS};
use super::{AUDIT, ForeignTableStore, Layout, State};
use crate::page::cut_page;
use crate::row::{detail, view};

#[async_trait]
impl Admin for ForeignTableStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let resolved = self.table().resolved();
        let counts = State::ALL.map(|state| {
            let (table, condition) = (&resolved.table, resolved.is(state));
            let some = format!("SELECT 1 FROM {table} AS t WHERE {condition} LIMIT {MAX_COUNTED_ROWS}");
            format!("(SELECT count(*) FROM ({some}) AS counted) AS {}", state.name())
        });
        let text = format!("SELECT {}, ({}) AS total", counts.join(", "), resolved.dialect.total);
        let rows = self.ask(text, vec![resolved.name_in_catalogue()]).await?;
        let count = |column: &str| rows.first().map_or(0, |row| number(&**row, column));
        let counts = Counts {
            pending: count("pending"),
            sent: count("sent"),
            failed: count("failed"),
            archived: count("archived"),
            total: count("total"),
        };
        let oldest_pending = self.table().oldest(Caller::Operator).await?;
        let mut stats = counts.stats();
        stats.oldest_pending = oldest_pending;
        Ok(stats)
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        let (resolved, limit) = (self.table().resolved(), limit.min(PageRequest::MAX_LIMIT));
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
        let rows = self.ask(text, Vec::new()).await?;
        let groups: Vec<BacklogGroup> = rows.iter().map(|row| group(&**row)).collect();
        let looked_at: u64 = groups.iter().map(|group| group.count).sum();
        Ok(Backlog::largest(groups, limit, looked_at > Backlog::MAX_ROWS as u64))
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let resolved = self.table().resolved();
        let (table, conditions) = (&resolved.table, Conditions::new(resolved, filter));
        let text = format!("SELECT count(*) AS events FROM {table} AS t WHERE {}", conditions.text());
        let rows = self.ask(text, conditions.values).await?;
        Ok(rows.first().map_or(0, |row| number(&**row, "events")))
    }

    /// The number of a row is its position in this list, because the table has no such number. While rows are inserted
    /// or deleted between two pages, a row may be missing or appear twice.
    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let (limit, from) = (page.limit.min(PageRequest::MAX_LIMIT), page.after.unwrap_or(0).max(0));
        let resolved = self.table().resolved();
        let conditions = Conditions::new(resolved, filter);
        let rest = format!(", {} LIMIT {} OFFSET {from}", resolved.key_names(), limit + 1);
        let text = resolved.oldest_first(&of_row(resolved), &conditions.text(), &rest);
        let rows = self.ask(text, conditions.values).await?;
        let rows = rows.iter().zip(from + 1..).map(|(row, seq)| {
            let mut row = view(&**row);
            row.seq = seq;
            row
        });
        Ok(cut_page(rows.collect(), limit, |row| row.seq))
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        let resolved = self.table().resolved();
        let conditions = Conditions::new(resolved, &Filter::id(id.clone()));
        // Both lists contain the columns of `of_both`, with the same names and values, so a name is not ambiguous.
        let (row, event, table) = (of_row(resolved), of_event(resolved), &resolved.table);
        let text = format!("SELECT {row}, {event} FROM {table} AS t WHERE {} LIMIT 1", conditions.text());
        let rows = self.ask(text, conditions.values).await?;
        Ok(rows.first().map(|row| detail(&**row)))
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        let (resolved, limit) = (self.table().resolved(), limit.min(PageRequest::MAX_LIMIT));
        let is_dead = resolved.is(State::Failed);
        let dead = resolved.oldest_first(&of_row(resolved), &is_dead, "DESC LIMIT 10000");
        let text = format!(
            "SELECT coalesce(aggregate_type, '{GLOBAL}') AS aggregate, coalesce(event_type, '') AS kind,
  coalesce(left(last_error, 200), '') AS reason, count(*) AS events, min(created_at) AS first, max(created_at) AS last
FROM ({dead}) AS dead GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT {limit}"
        );
        let rows = self.ask(text, Vec::new()).await?;
        Ok(rows.iter().map(|row| dead_group(&**row)).collect())
    }

    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError> {
        Ok(self.replay_all(&Filter::id(id.clone()), 1, replay).await? == 1)
    }

    async fn replay_all(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
    ) -> Result<u64, StoreError> {
        let set = self.table().resolved().set(State::Pending, "NULL");
        self.change_dead("replay", replay.actor, filter, limit, Some(&set)).await
    }

    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError> {
        self.change_dead("discard", actor, filter, limit, None).await
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let rows = self.table().purge(Caller::Operator, purge).await?;
        self.note(actor, "purge", purge, rows);
        Ok(rows)
    }

    async fn pause(&self, _route: &str, _actor: &str) -> Result<bool, StoreError> {
        Err(self.unsupported(
            "pause a route: there is no table to record it; stop the relay instead, and its events wait",
        ))
    }

    async fn resume(&self, _route: &str, _actor: &str) -> Result<bool, StoreError> {
        Err(self.unsupported("resume a route: routes of a foreign table cannot be paused"))
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        let stats = self.stats().await?;
        // The table shows no more about its rows than `stats` returns. What the table of a Posthaste outbox records
        // about leases and routes is only in memory here.
        let mut findings = RowObservations::default().findings(&stats, tolerance);
        findings.push(limits(self.layout()));
        Ok(findings)
    }

    async fn audit(&self, _page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        Err(self.unsupported("list operator changes: there is no audit table; they are in the log"))
    }
}

impl ForeignTableStore {
    async fn ask(&self, text: String, values: Vec<BindValue>) -> Result<Vec<Box<QueryRow>>, StoreError> {
        self.table().query(Caller::Operator, text, values).await
    }

    /// Sets columns of the failed rows that match, or deletes these rows if `set` is `None`. Changes nothing if the
    /// filter asks for rows in another state, or if rows of this layout cannot fail.
    async fn change_dead(
        &self,
        action: &'static str,
        actor: &str,
        filter: &Filter,
        limit: usize,
        set: Option<&str>,
    ) -> Result<u64, StoreError> {
        if filter.status.is_some_and(|status| status != Status::Dead) || !self.layout().can_fail() {
            return Ok(0);
        }
        let filter = filter.clone().with_status(Status::Dead);
        let conditions = Conditions::new(self.table().resolved(), &filter);
        let change = self.table().change_oldest(Caller::Operator, conditions, State::Failed, limit, set);
        let rows = change.await?;
        self.note(actor, action, &filter, rows);
        Ok(rows)
    }

    /// Logs a change, unless it changed no row. The log is the only record of the change. The log line has its own
    /// target, so that a log filter for other targets does not drop it by accident.
    fn note(&self, actor: &str, action: &'static str, target: &dyn std::fmt::Display, rows: u64) {
        if rows > 0 {
            let table = self.layout().table_name();
            tracing::info!(target: AUDIT, %table, actor, action, %target, rows, "an operator changed events");
        }
    }
}

/// One finding that lists all limits.
fn limits(layout: &Layout) -> Finding {
    let what = format!("the table belongs to another program: {}", layout.limits().join("; "));
    Finding::note("layout-limits", what, "docs/layouts.md explains what that means")
}

fn group(row: &QueryRow) -> BacklogGroup {
    BacklogGroup::new(text(row, "group_key"), number(row, "events"), age(row, "first"))
}

fn dead_group(row: &QueryRow) -> DeadGroup {
    let text = |column| text(row, column).unwrap_or_default();
    DeadGroup::new(text("aggregate"), text("kind"), text("reason")).with_deaths(
        number(row, "events"),
        time(row, "first"),
        time(row, "last"),
    )
}
