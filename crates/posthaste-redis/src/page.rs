//! Pages of rows as an operator sees them, bounded in rows and in bytes.
//!
//! Redis has no way to read a part of a body: to know the type of an event is to read its payload too. So
//! a script shows fewer rows than it is asked for where they are large, and a [`ScanBudget`] may end a scan early.

use futures_util::future::try_join_all;
use posthaste::admin::Filter;
use posthaste::{EventRow, StoreError};

use crate::RedisStore;
use crate::event_body::Extent;
use crate::filter::kinds;
use crate::keys::Shard;
use crate::row_state::AdminRow;
use crate::shard_calls::within_bodies_timeout;

/// What a script returns of a row: id, state, due time and body.
pub(crate) type AdminRowReply = (String, Option<String>, Option<f64>, Option<Vec<u8>>);

/// How many rows a script reads at once: more would keep others waiting.
pub(crate) const PAGE_ROWS: usize = 500;

/// In which order a page is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    OldestFirst,
    NewestFirst,
}

/// One page of all shards together.
pub(crate) struct RowPage {
    /// In order.
    pub(crate) rows: Vec<EventRow>,
    /// Where to go on; none at the end.
    pub(crate) next: Option<i64>,
    /// How much of bodies the server read for it.
    bytes: usize,
}

/// How many rows and bytes a scan may read, page by page, and how many it has.
pub(crate) struct ScanBudget {
    max_rows: usize,
    pub(crate) rows: usize,
    bytes: usize,
}

impl ScanBudget {
    /// So much is read of bodies, about: twenty thousand rows of 1.6 KiB.
    const MAX_BYTES: usize = 32 * 1024 * 1024;

    pub(crate) fn at_most(rows: usize) -> Self {
        Self { max_rows: rows, rows: 0, bytes: 0 }
    }

    pub(crate) fn add(&mut self, page: &RowPage) {
        self.rows += page.rows.len();
        self.bytes = self.bytes.saturating_add(page.bytes);
    }

    /// Whether it was enough: what comes after it is not looked at.
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

    /// What one shard has for a page.
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

    /// Where a page of this shard goes on. Rows of other shards at the same place may be on either side.
    fn page_start(&self, seq: i64, shard: &Shard, direction: Direction) -> Vec<u8> {
        let mut start = self.keys().page_start(seq, shard.number).into_bytes();
        if direction == Direction::NewestFirst && self.keys().of_seq(seq).number != shard.number {
            // Behind every id there, so that the row at that place is on the page.
            start.push(0xff);
        }
        start
    }
}

pub(crate) fn admin_row((id, state, due, body): AdminRowReply, shard: u16) -> AdminRow {
    AdminRow { id, state, due: due.map(|due| due as i64), body, shard }
}

/// What one shard has for a page.
struct ShardPage {
    rows: Vec<EventRow>,
    /// There may be more behind these.
    is_cut: bool,
    bytes: usize,
}

fn merge(pages: Vec<ShardPage>, limit: usize, direction: Direction) -> RowPage {
    let turn = |row: &EventRow| if direction == Direction::NewestFirst { -row.seq } else { row.seq };
    // Behind the last row of a page that was cut, others of its shard are missing.
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
