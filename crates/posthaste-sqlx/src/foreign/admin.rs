//! The operator's door to a foreign table. What operators change is logged: there is no table to write it into.

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay,
    RowObservations, Stats, Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, Status, StoreError};

use super::foreign_table::Caller;
use super::{AUDIT, ForeignTableStore, Layout, queries};
use crate::page::cut_page;

#[async_trait]
impl Admin for ForeignTableStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        queries::stats(self.table()).await
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        queries::backlog(self.table(), by, limit.min(PageRequest::MAX_LIMIT)).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        queries::count(self.table(), filter).await
    }

    /// A row's number is its place in this list, because the table has none. While rows come and go between two
    /// pages, one may be left out or shown twice.
    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        let from = page.after.unwrap_or(0).max(0);
        let mut rows = queries::list(self.table(), filter, from, limit + 1).await?;
        for (row, place) in rows.iter_mut().zip(from + 1..) {
            row.seq = place;
        }
        Ok(cut_page(rows, limit, |row| row.seq))
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        queries::get(self.table(), id).await
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        queries::dead_groups(self.table(), limit.min(PageRequest::MAX_LIMIT)).await
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
        let Some(filter) = self.dead(filter) else { return Ok(0) };
        let rows = queries::revive(self.table(), &filter, limit).await?;
        self.note(replay.actor, "replay", &filter, rows);
        Ok(rows)
    }

    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError> {
        let Some(filter) = self.dead(filter) else { return Ok(0) };
        let rows = queries::discard(self.table(), &filter, limit).await?;
        self.note(actor, "discard", &filter, rows);
        Ok(rows)
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let rows = queries::purge(self.table(), Caller::Operator, purge).await?;
        self.note(actor, "purge", purge, rows);
        Ok(rows)
    }

    async fn pause(&self, _route: &str, _actor: &str) -> Result<bool, StoreError> {
        Err(self.unsupported(
            "pause a route: there is no table to write that into; stop the relay, whose events wait meanwhile",
        ))
    }

    async fn resume(&self, _route: &str, _actor: &str) -> Result<bool, StoreError> {
        Err(self.unsupported("resume a route: there is no table to pause it in"))
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        let stats = self.stats().await?;
        // Of rows there is nothing else to see: what a table of ours tells of leases and routes is in memory here.
        let mut findings = RowObservations::default().findings(&stats, tolerance);
        findings.push(limits(self.layout()));
        Ok(findings)
    }

    async fn audit(&self, _page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        Err(self.unsupported("list what operators did: there is no table for it; the logs say it"))
    }
}

impl ForeignTableStore {
    /// The same filter for rows that were given up; none if it asks for others, or if there can be none.
    fn dead(&self, filter: &Filter) -> Option<Filter> {
        let fits = filter.status.is_none_or(|status| status == Status::Dead) && self.layout().can_fail();
        fits.then(|| filter.clone().with_status(Status::Dead))
    }

    /// A change of nothing is not noted. The log is the only record, so that it goes by a name of its own, which
    /// nobody filters away by accident.
    fn note(&self, actor: &str, action: &'static str, target: &dyn std::fmt::Display, rows: u64) {
        if rows > 0 {
            let table = self.layout().table_name();
            tracing::info!(target: AUDIT, %table, actor, action, %target, rows, "an operator changed events");
        }
    }
}

/// One note for all limits.
fn limits(layout: &Layout) -> Finding {
    let what = format!("the table is another's, so that {}", layout.limits().join("; "));
    Finding::note("layout-limits", what, "docs/layouts.md explains what that means")
}
