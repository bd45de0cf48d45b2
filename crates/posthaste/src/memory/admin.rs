//! [`Admin`](crate::Admin) of the memory store.

use std::collections::HashMap;
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use super::diagnose;
use super::row::MemoryRow;
use super::store::{oldest_pending, purge_rows};
use super::table::Table;
use crate::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, BacklogGroup, DeadGroup, Filter, Finding, Page, PageRequest,
    Replay, Stats, Tolerance,
};
use crate::error::StoreError;
use crate::event::EventId;
use crate::row::{EventDetail, EventRow, Status};
use crate::store::Purge;
use crate::time::Timestamp;

#[async_trait]
impl Admin for MemoryStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let now = self.now();
        Ok(stats(&self.table(), now))
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        let now = self.now();
        let table = self.table();
        let more = table.index.pending.len() > Backlog::MAX_ROWS;
        Ok(Backlog::largest(group_pending(&table, by, now), limit, more))
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let now = self.now();
        let table = self.table();
        Ok(candidates(&table, filter, None).filter(|row| matches(row, filter, now)).count() as u64)
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let now = self.now();
        let table = self.table();
        let matching = candidates(&table, filter, page.after).filter(|row| matches(row, filter, now));
        Ok(cut_page(matching.map(MemoryRow::view), page.limit, |row| row.seq))
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        Ok(self.table().find(id).map(MemoryRow::detail))
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        let table = self.table();
        Ok(DeadGroup::largest(candidates(&table, &Filter::dead(), None).map(MemoryRow::view), limit))
    }

    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError> {
        let filter = Filter::default().with_id(id.clone());
        Ok(self.replay_matching(&filter, 1, replay, id.to_string()) == 1)
    }

    async fn replay_all(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
    ) -> Result<u64, StoreError> {
        Ok(self.replay_matching(filter, limit, replay, filter.to_string()))
    }

    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let seqs = find_dead(&table, filter, limit, now);
        for &seq in &seqs {
            table.remove(seq, false);
        }
        let count = seqs.len() as u64;
        table.note(now, actor, "discard", filter.to_string(), count);
        Ok(count)
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let count = purge_rows(&mut table, purge, purge.now.unwrap_or(now));
        table.note(now, actor, "purge", purge.to_string(), count);
        Ok(count)
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let changed = table.paused.insert(route.to_owned());
        table.note(now, actor, "pause", route.to_owned(), changed.into());
        Ok(changed)
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let now = self.now();
        let mut table = self.table();
        let changed = table.paused.remove(route);
        table.note(now, actor, "resume", route.to_owned(), changed.into());
        Ok(changed)
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        let now = self.now();
        let table = self.table();
        Ok(diagnose::read(&table, now).findings(&stats(&table, now), tolerance))
    }

    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        let table = self.table();
        let older = |entry: &&AuditEntry| page.after.is_none_or(|after| entry.seq < after);
        let entries = table.audit.iter().rev().filter(older).cloned();
        Ok(cut_page(entries, page.limit, |entry| entry.seq))
    }
}

impl MemoryStore {
    fn replay_matching(&self, filter: &Filter, limit: usize, replay: &Replay<'_>, target: String) -> u64 {
        let now = self.now();
        let mut table = self.table();
        let seqs = find_dead(&table, filter, limit, now);
        for &seq in &seqs {
            table.change(seq, |row| revive(row, replay.forget_progress, now));
        }
        let count = seqs.len() as u64;
        table.note(now, replay.actor, "replay", target, count);
        drop(table);
        if count > 0 {
            self.0.wake.notify();
        }
        count
    }
}

/// Resets everything that would make the event DEAD again at its first error.
fn revive(row: &mut MemoryRow, forget_progress: bool, now: Timestamp) {
    row.let_go(now);
    row.status = Status::New.code().into();
    row.attempts = 0;
    row.deferrals = 0;
    row.lost_leases = 0;
    row.last_error = None;
    row.done_at = None;
    row.replays = row.replays.saturating_add(1);
    row.put_off = None;
    if forget_progress {
        row.progress.clear();
    }
}

/// Rows that may match, by insertion: only the filter's status narrows them down. The archive is searched only if the
/// filter has its status.
fn candidates<'t>(
    table: &'t Table,
    filter: &Filter,
    after: Option<i64>,
) -> Box<dyn Iterator<Item = &'t MemoryRow> + 't> {
    let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    match filter.status {
        Some(Status::Archived) => Box::new(table.archive.range(range).map(|(_, row)| row)),
        Some(Status::New | Status::Retry) => {
            Box::new(table.index.pending.range(range).filter_map(|seq| table.rows.get(seq)))
        }
        Some(Status::Dead) => {
            Box::new(table.index.dead_by_seq.range(range).filter_map(|seq| table.rows.get(seq)))
        }
        Some(Status::Done) | None => Box::new(table.rows.range(range).map(|(_, row)| row)),
    }
}

fn matches(row: &MemoryRow, filter: &Filter, now: Timestamp) -> bool {
    fn is_or_any(wanted: Option<&String>, value: Option<&str>) -> bool {
        wanted.is_none_or(|wanted| value == Some(wanted))
    }
    let event = &row.event;
    let is_old = |age| row.done_at.unwrap_or(row.inserted_at) <= now - age;
    filter.status.is_none_or(|status| status == row.status())
        && filter.id.as_ref().is_none_or(|id| id == event.id())
        && is_or_any(filter.event_type.as_ref(), Some(event.event_type()))
        && is_or_any(filter.aggregate_type.as_ref(), Some(event.aggregate_type()))
        && is_or_any(filter.aggregate_id.as_ref(), event.aggregate_id())
        && is_or_any(filter.tenant_id.as_ref(), event.tenant_id())
        && is_or_any(filter.parked.as_ref(), row.parked.as_deref())
        && filter
            .error_contains
            .as_ref()
            .is_none_or(|text| row.last_error.as_deref().is_some_and(|error| error.contains(text.as_str())))
        && filter.older_than.is_none_or(is_old)
}

fn find_dead(table: &Table, filter: &Filter, limit: usize, now: Timestamp) -> Vec<i64> {
    if filter.status.is_some_and(|status| status != Status::Dead) {
        return Vec::new();
    }
    if let Some(id) = &filter.id {
        let row = table.seq_of(id).and_then(|seq| table.rows.get(&seq));
        let dead = row.filter(|row| row.status() == Status::Dead && matches(row, filter, now));
        return dead.into_iter().take(limit).map(|row| row.seq).collect();
    }
    let dead = candidates(table, &Filter::dead(), None);
    dead.filter(|row| matches(row, filter, now)).take(limit).map(|row| row.seq).collect()
}

/// The first entries, and where to continue if there are more.
fn cut_page<T>(mut entries: impl Iterator<Item = T>, limit: usize, key: impl Fn(&T) -> i64) -> Page<T> {
    let items: Vec<T> = entries.by_ref().take(limit.min(PageRequest::MAX_LIMIT)).collect();
    let next = items.last().map(key).filter(|_| entries.next().is_some());
    Page::new(items, next)
}

fn stats(table: &Table, now: Timestamp) -> Stats {
    let mut stats = Stats {
        done: table.index.done.len() as u64,
        dead: table.index.dead.len() as u64,
        archived: table.archive.len() as u64,
        oldest_pending: oldest_pending(table, now),
        paused: table.paused.clone(),
        ..Stats::default()
    };
    for row in table.index.pending.iter().filter_map(|seq| table.rows.get(seq)) {
        let by_status = if row.status() == Status::Retry { &mut stats.retry } else { &mut stats.new };
        *by_status += 1;
        *match row {
            _ if row.claimable_at() <= now => &mut stats.due,
            _ if row.is_leased(now) => &mut stats.leased,
            MemoryRow { parked: Some(_), .. } => &mut stats.parked,
            _ => &mut stats.scheduled,
        } += 1;
    }
    stats
}

fn group_pending(table: &Table, by: BacklogBy, now: Timestamp) -> Vec<BacklogGroup> {
    let mut groups: HashMap<Option<String>, BacklogGroup> = HashMap::new();
    for row in table.index.pending.iter().take(Backlog::MAX_ROWS).filter_map(|seq| table.rows.get(seq)) {
        let key = match by {
            BacklogBy::Type => Some(format!("{}:{}", row.event.aggregate_type(), row.event.event_type())),
            BacklogBy::Tenant => row.event.tenant_id().map(str::to_owned),
        };
        let group = groups.entry(key).or_insert_with_key(|key| BacklogGroup::new(key.clone(), 0, None));
        group.count += 1;
        group.oldest = group.oldest.max(Some(now.since(row.inserted_at)));
    }
    groups.into_values().collect()
}
