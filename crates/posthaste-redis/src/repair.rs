//! The repair: what a script that failed in the middle left half done is finished, and what nothing leads to is
//! found again.
//!
//! Redis does not undo the commands of a script that fails at a later one, when its memory runs out for
//! example. The scripts write in an order from which the repair can go on. It may run in any number of processes,
//! beside writers and engines: each page is looked at and repaired in one step.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste::StoreError;
use tokio::time::sleep;

use crate::keys::Shard;
use crate::{Inner, RedisStore};

/// What a [repair](RedisStore::repair) found and repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Bodies of events that no index led to: they are due now.
    pub bodies: u64,
    /// Members of indexes, and states, that lead to no row: they are gone.
    pub members: u64,
    /// Rows that were missing from an index of their status, or stood in one of another.
    pub rows: u64,
}

impl Repaired {
    /// Whether there was nothing to repair.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.bodies += other.bodies;
        self.members += other.members;
        self.rows += other.rows;
    }
}

/// How many rows one call looks at, about, which takes less than a millisecond. Where bodies have to be read, a call
/// also ends behind the first mebibyte of them.
const PAGE_ROWS: usize = 100;

/// How often a process with an engine looks at a page by default.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// What is scanned, one after another. Bodies come behind the two that say what is missing without reading them:
/// then there are as many bodies as states, unless nothing leads to one, and most passes need not read a single one.
const SCANNED_KEYS: [&str; 4] = ["state", "pending", "entries", "parked"];

impl RedisStore {
    /// Looks at every row once, and repairs what is half done. Every process that runs an engine does so anyway, page
    /// by page: see [`repair_every`](crate::RedisStoreBuilder::repair_every).
    // S1-09
    pub async fn repair(&self) -> Result<Repaired, StoreError> {
        self.repair_in_pages(PAGE_ROWS).await
    }

    pub(crate) async fn repair_in_pages(&self, rows: usize) -> Result<Repaired, StoreError> {
        let (mut total, mut scan) = (Repaired::default(), RepairScan::default());
        while let Some(repaired) = scan.next_page(self, rows).await? {
            total.add(repaired);
        }
        Ok(total)
    }
}

/// Looks at a page from time to time, as long as the store is in use.
pub(crate) async fn repair_while_used(store: Weak<Inner>, interval: Duration) {
    let mut scan = RepairScan::default();
    loop {
        sleep(interval).await;
        let Some(inner) = store.upgrade().filter(|inner| !inner.is_closed.load(Ordering::Relaxed)) else {
            return;
        };
        scan.next_page_or_restart(&RedisStore(inner)).await;
    }
}

/// How far one pass over the whole outbox has come.
#[derive(Debug)]
struct RepairScan {
    shard: usize,
    what: usize,
    cursor: String,
}

impl Default for RepairScan {
    fn default() -> Self {
        Self { shard: 0, what: 0, cursor: "0".to_owned() }
    }
}

impl RepairScan {
    /// Looks at the next page, and begins again after the last.
    async fn next_page_or_restart(&mut self, store: &RedisStore) {
        match self.next_page(store, PAGE_ROWS).await {
            Ok(Some(_)) => {}
            Ok(None) => *self = Self::default(),
            Err(error) => {
                tracing::warn!(%error, "the outbox could not be looked at for repair; trying again");
            }
        }
    }

    /// Looks at the next page; `None` at the end of the pass.
    async fn next_page(&mut self, store: &RedisStore, page: usize) -> Result<Option<Repaired>, StoreError> {
        let Some(shard) = store.keys().shards().get(self.shard) else { return Ok(None) };
        let (cursor, repaired) = self.look(store, shard, page).await?;
        store.count_repaired(repaired);
        self.cursor = cursor;
        if self.cursor == "0" {
            self.what = (self.what + 1) % SCANNED_KEYS.len();
            self.shard += usize::from(self.what == 0);
        }
        Ok(Some(repaired))
    }

    async fn look(
        &self,
        store: &RedisStore,
        shard: &Shard,
        page: usize,
    ) -> Result<(String, Repaired), StoreError> {
        loop {
            let call = store.scripts().repair.on(shard, None);
            let call = call.arg((SCANNED_KEYS[self.what], &self.cursor, page));
            let (is_ready, cursor, bodies, members, rows): (bool, String, u64, u64, u64) =
                call.run(store.connections()).await?;
            if is_ready {
                return Ok((cursor, Repaired { bodies, members, rows }));
            }
        }
    }
}
