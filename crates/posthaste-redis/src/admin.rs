//! The operator API (`Admin`) on Redis: statistics, lists, replay, discard, pause, purge, audit and diagnosis.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats,
    Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, Status, StoreError, Timestamp};
use redis::streams::StreamRangeReply;

use crate::RedisStore;
use crate::event_body::Extent;
use crate::filter::{is_whole_kind, kinds, matches};
use crate::keys::StreamId;
use crate::page::{AdminRowReply, Direction, PAGE_ROWS, ScanBudget, admin_row};
use crate::shard_calls::within_bodies_timeout;

/// Rows that one page of a list, or one grouping of DEAD events, reads at most.
const MAX_ROWS_SCANNED: usize = 10_000;

#[async_trait]
impl Admin for RedisStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        self.read_stats().await
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        self.read_backlog(by, limit).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let before = self.cutoff(filter).await?;
        if let Some(id) = &filter.id {
            return Ok(self.find(id, filter, before).await?.into_iter().count() as u64);
        }
        self.index_all_arrivals().await?;
        if is_whole_kind(filter) {
            return self.count_kinds(kinds(filter)).await;
        }
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.page(filter, after, PAGE_ROWS, Direction::OldestFirst).await?;
            count += page.rows.iter().filter(|row| matches(row, filter, before)).count() as u64;
            let Some(next) = page.next else { return Ok(count) };
            after = Some(next);
        }
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        let before = self.cutoff(filter).await?;
        if let Some(id) = &filter.id {
            let row = self.find(id, filter, before).await?;
            let row = row.filter(|row| page.after.is_none_or(|after| row.seq > after));
            return Ok(Page::new(row.into_iter().take(limit).collect(), None));
        }
        self.index_all_arrivals().await?;
        let (mut items, mut budget, mut after) =
            (Vec::new(), ScanBudget::at_most(MAX_ROWS_SCANNED), page.after);
        loop {
            let read = self.page(filter, after, PAGE_ROWS, Direction::OldestFirst).await?;
            budget.add(&read);
            for row in read.rows {
                if !matches(&row, filter, before) {
                    continue;
                }
                if items.len() == limit {
                    let next = items.last().map(|row: &EventRow| row.seq).or(page.after);
                    return Ok(Page::new(items, next));
                }
                items.push(row);
            }
            match read.next {
                None => return Ok(Page::new(items, None)),
                Some(next) if budget.is_over() => return Ok(Page::new(items, Some(next))),
                Some(next) => after = Some(next),
            }
        }
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.index_all_arrivals().await?;
        let row_in = |shard| async move {
            let call = self.scripts().get.on(shard, None).arg(id.as_str());
            let rows: Vec<AdminRowReply> = self.call_shard_for_bodies(shard, &call).await?;
            Ok::<_, StoreError>(rows.into_iter().next().map(|row| admin_row(row, shard.number)))
        };
        let found = within_bodies_timeout(try_join_all(self.keys().shards().iter().map(row_in))).await?;
        Ok(found.into_iter().flatten().next().map(|row| row.detail(Extent::Whole)))
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(&Filter::dead(), after, PAGE_ROWS, Direction::NewestFirst).await?;
            rows.extend(page.rows);
            match page.next {
                Some(next) if rows.len() < MAX_ROWS_SCANNED => after = Some(next),
                _ => return Ok(DeadGroup::largest(rows, limit)),
            }
        }
    }

    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError> {
        let Some(row) = self.get(id).await?.map(|detail| detail.row) else { return Ok(false) };
        Ok(self.replay_or_discard(&DeadRowChange::replay(replay), &[row], id.as_str()).await? > 0)
    }

    async fn replay_all(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
    ) -> Result<u64, StoreError> {
        self.change_matching(&DeadRowChange::replay(replay), filter, limit).await
    }

    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError> {
        let change = DeadRowChange { what: "discard", forget_progress: false, actor };
        self.change_matching(&change, filter, limit).await
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        self.purge_for(purge, actor).await
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        self.set_paused("pause", route, actor).await
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        self.set_paused("resume", route, actor).await
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        self.read_findings(tolerance).await
    }

    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        let keys = self.keys();
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        let before = page.after.map(|seq| StreamId::of_seq(seq).to_string()).unwrap_or_default();
        // One more than requested shows whether there is a next page.
        let call = self.scripts().audit_page.on(keys.first(), None).arg((before, limit + 1));
        let entries: StreamRangeReply = call.run(self.connections()).await?;
        let mut items = Vec::with_capacity(limit);
        for entry in entries.ids.iter().take(limit) {
            let sid = StreamId::parse(&entry.id).unwrap_or_default();
            let text = |name: &str| entry.get::<String>(name).unwrap_or_default();
            items.push(AuditEntry::new(
                sid.seq(0),
                Timestamp::from_micros(sid.ms * 1000),
                text("actor"),
                text("action"),
                text("target"),
                entry.get("rows").unwrap_or_default(),
            ));
        }
        let next = items.last().map(|entry| entry.seq).filter(|_| entries.ids.len() > limit);
        Ok(Page::new(items, next))
    }
}

/// A change of DEAD rows by an operator.
struct DeadRowChange<'a> {
    /// `replay` or `discard`, as the script expects it.
    what: &'static str,
    /// Whether a replay delivers again to destinations that have the event already.
    forget_progress: bool,
    actor: &'a str,
}

impl<'a> DeadRowChange<'a> {
    fn replay(replay: &Replay<'a>) -> Self {
        Self { what: "replay", forget_progress: replay.forget_progress, actor: replay.actor }
    }
}

impl RedisStore {
    /// Indexes all arrivals, so that lists contain them. On a read-only store this fails silently: arrivals that no
    /// engine has indexed are then not listed. Statistics count them in any case.
    pub(crate) async fn index_all_arrivals(&self) -> Result<(), StoreError> {
        self.index_arrivals_up_to(usize::MAX).await
    }

    /// Indexes about the first `rows` arrivals of each shard.
    pub(crate) async fn index_arrivals_up_to(&self, rows: usize) -> Result<(), StoreError> {
        const INDEX_BATCH_ROWS: usize = 1000;
        for shard in self.keys().shards() {
            let call = self.scripts().index_arrivals.on(shard, None).arg(INDEX_BATCH_ROWS);
            for _ in 0..rows.div_ceil(INDEX_BATCH_ROWS) {
                match call.run::<u8>(self.connections()).await {
                    Ok(1) => {}
                    Ok(_) => break,
                    // If the server is unreachable, the caller's next call reports it.
                    Err(_) if self.0.read_only => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The server's clock, cut to whole milliseconds as in the scripts.
    pub(crate) async fn clock(&self) -> Result<Timestamp, StoreError> {
        let (secs, micros): (i64, i64) =
            self.connections().query(&redis::cmd("TIME")).await.map_err(crate::error::failed)?;
        Ok(Timestamp::from_micros(secs * 1_000_000 + micros / 1000 * 1000))
    }

    /// The time by which a row must have ended or, if it is pending, have been inserted; `None` if the filter does not
    /// limit the age.
    async fn cutoff(&self, filter: &Filter) -> Result<Option<Timestamp>, StoreError> {
        match filter.older_than {
            Some(age) => Ok(Some(self.clock().await? - age)),
            None => Ok(None),
        }
    }

    /// The row with this id, if it matches the filter. Archived rows match only if the filter names that status.
    async fn find(
        &self,
        id: &EventId,
        filter: &Filter,
        before: Option<Timestamp>,
    ) -> Result<Option<EventRow>, StoreError> {
        let row = self.get(id).await?.map(|detail| detail.row);
        let is_hidden = |row: &EventRow| row.status == Status::Archived && filter.status.is_none();
        Ok(row.filter(|row| matches(row, filter, before) && !is_hidden(row)))
    }

    /// The paused routes.
    pub(crate) async fn paused(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys().first().key("control"));
        self.connections().query(&members).await.map_err(crate::error::failed)
    }

    /// Replays or discards these rows if they are still DEAD; returns how many were.
    async fn replay_or_discard(
        &self,
        change: &DeadRowChange<'_>,
        rows: &[EventRow],
        target: &str,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for (shard, places) in self.keys().group(rows.iter().map(|row| self.keys().of_seq(row.seq))) {
            let ids: Vec<&str> = places.into_iter().map(|place| rows[place].id.as_str()).collect();
            let call =
                self.scripts().replay_or_discard.on(shard, None).arg((change.what, change.forget_progress));
            let call = call.arg((self.audited_inside(change.actor), target, ids));
            count += call.run::<u64>(self.connections()).await?;
        }
        self.record_audit(change.actor, change.what, target, count).await?;
        if count > 0 && change.what == "replay" {
            self.0.server_state.forget();
            self.notify_due();
        }
        Ok(count)
    }

    /// Replays or discards up to `limit` DEAD rows that match, oldest first.
    async fn change_matching(
        &self,
        change: &DeadRowChange<'_>,
        filter: &Filter,
        limit: usize,
    ) -> Result<u64, StoreError> {
        if filter.status.is_some_and(|status| status != Status::Dead) || limit == 0 {
            return Ok(0);
        }
        let target = filter.to_string();
        let dead = filter.clone().with_status(Status::Dead);
        let (mut count, mut after) = (0, None);
        loop {
            let missing = limit - count;
            let page = PageRequest::after(after, missing);
            let page = self.list(&dead, &page).await?;
            // Another operator may have changed some of the listed rows already, so the count can be lower.
            count += self.replay_or_discard(change, &page.items, &target).await? as usize;
            match page.next {
                Some(next) if count < limit => after = Some(next),
                _ => return Ok(count as u64),
            }
        }
    }

    /// `what`: `pause` or `resume`. Returns whether that changed anything.
    async fn set_paused(&self, what: &str, route: &str, actor: &str) -> Result<bool, StoreError> {
        let call = self.scripts().pause.on(self.keys().first(), None).arg((what, route, actor));
        let changed = call.run::<u8>(self.connections()).await? == 1;
        self.0.server_state.forget();
        if changed {
            self.notify_due();
        }
        Ok(changed)
    }

    /// The actor that a script records in the audit. Empty with several shards: then
    /// [`record_audit`](Self::record_audit) writes one audit entry for the whole change.
    pub(crate) fn audited_inside<'a>(&self, actor: &'a str) -> &'a str {
        if self.keys().count() == 1 { actor } else { "" }
    }

    /// Writes the audit entry of a change that was made in several shards. With one shard the script has written it.
    pub(crate) async fn record_audit(
        &self,
        actor: &str,
        action: &str,
        target: &str,
        rows: u64,
    ) -> Result<(), StoreError> {
        if self.keys().count() == 1 || actor.is_empty() || rows == 0 {
            return Ok(());
        }
        let call =
            self.scripts().record_audit.on(self.keys().first(), None).arg((actor, action, target, rows));
        call.run::<u8>(self.connections()).await.map(|_| ())
    }
}
