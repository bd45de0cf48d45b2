//! Repair: completes what a failed script left incomplete, and finds bodies that no index leads to.
//!
//! Redis does not undo the commands of a script that fails at a later one, for example because memory runs out. The
//! scripts write in an order that the repair can complete from any point. Any number of processes can run it, beside
//! writers and engines, because each page is checked and repaired in one atomic script.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste::StoreError;
use tokio::time::sleep;

use crate::keys::Shard;
use crate::{Inner, RedisStore};

/// What a [repair](RedisStore::repair) fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Bodies that no index led to. Their events are due now.
    pub bodies: u64,
    /// Index members and states without a row. They were removed.
    pub members: u64,
    /// Rows that were missing from the index of their status, or were in the index of another one.
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

/// Rows per call, about: less than a millisecond of the server's time. A call that reads bodies also ends after 1 MiB.
const PAGE_ROWS: usize = 100;

/// Default interval of the background repair.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The keys to scan, in this order. `entries` comes after the two scans that remove states and members without a body:
/// then the number of states and bodies is usually equal, and no body has to be read.
const SCANNED_KEYS: [&str; 4] = ["state", "pending", "entries", "parked"];

impl RedisStore {
    /// Checks every row once, and repairs what is incomplete. A process that runs an engine does this in the
    /// background, page by page: see [`repair_every`](crate::RedisStoreBuilder::repair_every).
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

/// Background task: repairs one page per interval until the store is closed or dropped.
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

/// Position of one pass over the outbox.
#[derive(Debug)]
struct RepairScan {
    /// Index of the shard.
    shard: usize,
    /// Index in [`SCANNED_KEYS`].
    what: usize,
    /// Redis' scan cursor; `0` at the start and the end.
    cursor: String,
}

impl Default for RepairScan {
    fn default() -> Self {
        Self { shard: 0, what: 0, cursor: "0".to_owned() }
    }
}

impl RepairScan {
    /// Repairs the next page. After the last page the pass starts again.
    async fn next_page_or_restart(&mut self, store: &RedisStore) {
        match self.next_page(store, PAGE_ROWS).await {
            Ok(Some(_)) => {}
            Ok(None) => *self = Self::default(),
            Err(error) => {
                tracing::warn!(%error, "the background repair of the outbox failed; it will be tried again");
            }
        }
    }

    /// Repairs the next page; returns `None` at the end of the pass.
    async fn next_page(&mut self, store: &RedisStore, page: usize) -> Result<Option<Repaired>, StoreError> {
        let Some(shard) = store.keys().shards().get(self.shard) else { return Ok(None) };
        let (cursor, repaired) = self.repair_page(store, shard, page).await?;
        store.count_repaired(repaired);
        self.cursor = cursor;
        if self.cursor == "0" {
            self.what = (self.what + 1) % SCANNED_KEYS.len();
            self.shard += usize::from(self.what == 0);
        }
        Ok(Some(repaired))
    }

    async fn repair_page(
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
