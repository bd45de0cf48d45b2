//! The repair worker: what a script that failed in the middle left half done is finished, and what nothing
//! leads to is found again.
//!
//! Redis does not undo the commands of a script that fails at a later one, when its memory runs out for
//! example. The scripts write in an order from which this worker can go on.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste::StoreError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::keys::Shard;
use crate::worker_task::WorkerTask;
use crate::{Inner, RedisStore};

/// Looks for orphans, page by page; made by [`RedisStore::repair_worker`].
///
/// Any number of them may run beside writers and engines: each page is looked at and mended in one step.
#[derive(Clone, Debug)]
#[must_use = "call `start` or `run_once`"]
pub struct RepairWorker {
    store: RedisStore,
    page: usize,
    interval: Duration,
}

/// What a repair found and mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Bodies of events that no index led to: they are due now.
    pub bodies: u64,
    /// Members of indexes, and states, that lead to no row: they are gone.
    pub members: u64,
    /// Rows that were missing from an index of their status, or stood in one of another.
    pub rows: u64,
}

impl Repaired {
    /// Whether there was nothing to mend.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.bodies += other.bodies;
        self.members += other.members;
        self.rows += other.rows;
    }
}

/// How many rows are looked at in one call, and how often, unless somebody says otherwise.
const DEFAULT_PAGE_ROWS: usize = 100;
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// What is scanned, one after another. Bodies come behind the two that say what is missing without reading them:
/// then there are as many bodies as states, unless nothing leads to one, and most passes need not read a single one.
const SCANNED_KEYS: [&str; 4] = ["state", "pending", "entries", "parked"];

impl RedisStore {
    /// A worker that finds and mends what is half done.
    pub fn repair_worker(&self) -> RepairWorker {
        RepairWorker { store: self.clone(), page: DEFAULT_PAGE_ROWS, interval: DEFAULT_INTERVAL }
    }
}

impl RepairWorker {
    /// How many rows one call looks at, about. Default: 100, which takes less than a millisecond. Where bodies
    /// have to be read, a call also ends behind the first mebibyte of them.
    pub fn page(mut self, rows: usize) -> Self {
        self.page = rows.max(1);
        self
    }

    /// How long to wait between two pages. Default: a second.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Looks at every row once, without waiting.
    // S1-09
    pub async fn run_once(&self) -> Result<Repaired, StoreError> {
        let mut total = Repaired::default();
        let mut scan = RepairScan::default();
        while let Some(repaired) = scan.next_page(&self.store, self.page).await? {
            total.add(repaired);
        }
        Ok(total)
    }

    /// Looks at a page from time to time, in the background, until the handle is dropped or shut down.
    pub fn start(self) -> RepairHandle {
        RepairHandle(WorkerTask::start(|stop| repair_until(stop, self)))
    }
}

async fn repair_until(stop: CancellationToken, worker: RepairWorker) {
    let work = async {
        let mut scan = RepairScan::default();
        loop {
            sleep(worker.interval).await;
            scan.next_page_or_restart(&worker.store, worker.page).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// The same for a store with an engine, as long as anybody has the store.
pub(crate) async fn repair_while_used(store: Weak<Inner>, interval: Duration) {
    let mut scan = RepairScan::default();
    loop {
        sleep(interval).await;
        let Some(inner) = store.upgrade().filter(|inner| !inner.is_closed.load(Ordering::Relaxed)) else {
            return;
        };
        scan.next_page_or_restart(&RedisStore(inner), DEFAULT_PAGE_ROWS).await;
    }
}

/// A repair worker at work. Dropped, it stops.
#[derive(Debug)]
#[must_use = "dropped, the worker stops"]
pub struct RepairHandle(WorkerTask);

impl RepairHandle {
    /// Stops, and waits until it has. Twice is harmless.
    pub async fn shutdown(&mut self) {
        self.0.shutdown().await;
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
    async fn next_page_or_restart(&mut self, store: &RedisStore, page: usize) {
        match self.next_page(store, page).await {
            Ok(Some(_)) => {}
            Ok(None) => *self = Self::default(),
            Err(error) => {
                tracing::warn!(%error, "the outbox could not be looked at for repair; trying again");
            }
        }
    }

    /// Looks at the next page; none at the end of the pass.
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
            let call = store
                .scripts()
                .repair
                .on(shard)
                .arg("")
                .arg(SCANNED_KEYS[self.what])
                .arg(&self.cursor)
                .arg(page);
            let (is_ready, cursor, bodies, members, rows): (bool, String, u64, u64, u64) =
                call.run(store.connections()).await?;
            if is_ready {
                return Ok((cursor, Repaired { bodies, members, rows }));
            }
        }
    }
}
