//! Pages of rows for operators, bounded in rows and bytes.
//!
//! Redis cannot read a part of a hash value, so reading the type of an event means reading its payload. Therefore the
//! script returns fewer rows where bodies are large, and a [`ScanBudget`] can end a scan early.

use futures_util::future::try_join_all;
use posthaste::admin::Filter;
use posthaste::{EventRow, StoreError};

use crate::RedisStore;
use crate::event_body::Extent;
use crate::filter::kinds;
use crate::keys::Shard;
use crate::row_state::AdminRow;
use crate::shard_calls::within_bodies_timeout;

/// One row in the reply of a script: id, state, due time and body.
pub(crate) type AdminRowReply = (String, Option<String>, Option<f64>, Option<Vec<u8>>);

/// Rows per call of a script. More would block the server for too long.
pub(crate) const PAGE_ROWS: usize = 500;

/// In which order a page is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    OldestFirst,
    NewestFirst,
}

/// One page of all shards together.
pub(crate) struct RowPage {
    /// In the requested direction.
    pub(crate) rows: Vec<EventRow>,
    /// The `seq` to continue after; `None` at the end.
    pub(crate) next: Option<i64>,
    /// Bytes of bodies that the servers read for it.
    bytes: usize,
}

/// Limit of rows and bytes for a scan over several pages, and what it has used.
pub(crate) struct ScanBudget {
    max_rows: usize,
    pub(crate) rows: usize,
    bytes: usize,
}

impl ScanBudget {
    /// Bytes of bodies, about: 20,000 rows of 1.6 KiB.
    const MAX_BYTES: usize = 32 * 1024 * 1024;

    pub(crate) fn at_most(rows: usize) -> Self {
        Self { max_rows: rows, rows: 0, bytes: 0 }
    }

    pub(crate) fn add(&mut self, page: &RowPage) {
        self.rows += page.rows.len();
        self.bytes = self.bytes.saturating_add(page.bytes);
    }

    /// Whether the limit is reached, so that the scan ends.
    pub(crate) fn is_over(&self) -> bool {
        self.rows >= self.max_rows || self.bytes >= Self::MAX_BYTES
    }
}

impl RedisStore {
    /// One page of all shards together.
    pub(crate) async fn page(
        &self,
        filter: &Filter,
        after: Option<i64>,
        limit: usize,
        direction: Direction,
    ) -> Result<RowPage, StoreError> {
        let read = |shard| self.shard_page(shard, filter, after, limit, direction);
        let pages = within_bodies_timeout(try_join_all(self.keys().shards().iter().map(read))).await?;
        Ok(merge(pages, limit, direction))
    }

    /// The rows of one shard for a page.
    async fn shard_page(
        &self,
        shard: &Shard,
        filter: &Filter,
        after: Option<i64>,
        limit: usize,
        direction: Direction,
    ) -> Result<ShardPage, StoreError> {
        let start = after.map(|seq| self.page_start(seq, shard, direction)).unwrap_or_default();
        let call = self.scripts().page.on(shard, None);
        let call = call.arg((start, limit, direction == Direction::NewestFirst, kinds(filter)));
        let (rows, is_cut, bytes): (Vec<AdminRowReply>, bool, usize) =
            self.call_shard_for_bodies(shard, &call).await?;
        let row = |row| admin_row(row, shard.number).detail(Extent::Head).row;
        Ok(ShardPage { rows: rows.into_iter().map(row).collect(), is_cut, bytes })
    }

    /// The start of this shard's page. Rows of other shards at the same place can sort before or after `seq`.
    fn page_start(&self, seq: i64, shard: &Shard, direction: Direction) -> Vec<u8> {
        let mut start = self.keys().page_start(seq, shard.number).into_bytes();
        if direction == Direction::NewestFirst && self.keys().of_seq(seq).number != shard.number {
            // `0xff` sorts behind every id at that place, so the row there is on the page.
            start.push(0xff);
        }
        start
    }
}

pub(crate) fn admin_row((id, state, due, body): AdminRowReply, shard: u16) -> AdminRow {
    AdminRow { id, state, due: due.map(|due| due as i64), body, shard }
}

/// The rows of one shard for a page.
struct ShardPage {
    rows: Vec<EventRow>,
    /// There may be more rows behind these.
    is_cut: bool,
    bytes: usize,
}

fn merge(pages: Vec<ShardPage>, limit: usize, direction: Direction) -> RowPage {
    let turn = |row: &EventRow| if direction == Direction::NewestFirst { -row.seq } else { row.seq };
    // Rows behind the end of a shard's incomplete page cannot be shown yet: rows of that shard may come before them.
    let cut = pages.iter().filter(|page| page.is_cut);
    let end = cut.filter_map(|page| page.rows.iter().map(turn).max()).min();
    let bytes = pages.iter().map(|page| page.bytes).sum();
    let mut rows: Vec<EventRow> = pages.into_iter().flat_map(|page| page.rows).collect();
    rows.retain(|row| end.is_none_or(|end| turn(row) <= end));
    rows.sort_by_key(turn);
    let is_cut = end.is_some() || rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().map(|row| row.seq).filter(|_| is_cut);
    RowPage { rows, next, bytes }
}
