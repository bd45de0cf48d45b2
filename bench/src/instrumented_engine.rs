//! The engines of the benchmark: one whose handler only counts, and one that accepts events and never delivers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::config::QueueConfig;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Unpark,
};
use posthaste::{Config, Delivery, Outbox, Route, Routes, Store, StoreError, Timestamp, handler};
use tokio::sync::Notify;

use super::workload::{EVENT_TYPE, Load};
use posthaste_measurements::Histogram;

/// Events per claim: as many as a relay claims.
pub(super) const CLAIM_EVENTS: usize = 500;

/// An engine whose handler counts events and notifies after the last one.
pub(super) struct CountingEngine {
    pub(super) outbox: Outbox,
    counter: Arc<Counter>,
    store: Arc<MeasuredStore>,
}

#[derive(Debug)]
struct Counter {
    left: AtomicU64,
    all: Notify,
}

impl CountingEngine {
    /// Builds the engine without starting it.
    pub(super) fn build(store: Arc<dyn Store>, load: &Load) -> anyhow::Result<Self> {
        let counter = Arc::new(Counter { left: AtomicU64::new(load.events), all: Notify::new() });
        let store = MeasuredStore::new(store);
        let counted = Arc::clone(&counter);
        let count = handler(move |_: Delivery| {
            if counted.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                counted.all.notify_one();
            }
            std::future::ready(())
        });
        let routes = Routes::new().add(Route::fallback().deliver_to(count));
        let outbox = Outbox::from_config(Arc::clone(&store), config(load), routes).build()?;
        Ok(Self { outbox, counter, store })
    }

    /// Waits until every event is delivered and settled.
    pub(super) async fn settled(&self) -> anyhow::Result<()> {
        self.counter.all.notified().await;
        Ok(self.outbox.idle().await?)
    }

    /// Number of events settled so far.
    pub(super) fn settled_so_far(&self) -> u64 {
        self.store.settled()
    }

    /// Stops the engine. Returns the mean number of events per settle statement.
    pub(super) async fn stop(self) -> f64 {
        self.outbox.shutdown().await;
        self.store.settle_batch()
    }
}

/// The default configuration, with claims as large as the relay's.
pub(super) fn config(load: &Load) -> Config {
    let mut config = Config::default();
    config.workers = Some(load.workers);
    config.poller.batch = CLAIM_EVENTS;
    config.poller.interval = Duration::from_millis(100);
    config
}

/// An engine that runs but never delivers. Its Writer does all the work of the hot path, and nothing else uses the
/// machine.
pub(super) fn start_stalled(store: Arc<dyn Store>, load: &Load) -> anyhow::Result<Outbox> {
    let routes = Routes::new().handle(EVENT_TYPE, |_: Delivery| std::future::pending::<()>());
    // The queue must not fill and no lease may expire during the measurement.
    let events = usize::try_from(load.events)?.saturating_mul(2).clamp(1_000, 1_000_000);
    let long = Duration::from_secs(3_600);
    let mut config = config(load);
    config.queue = QueueConfig::default().with_hot(events).with_bytes(usize::MAX);
    config.lease.duration = long;
    config.lease.hot = long;
    Ok(Outbox::from_config(store, config, routes).start()?)
}

/// A store that counts settled events and measures the latency of claims.
#[derive(Debug)]
pub(super) struct MeasuredStore {
    store: Arc<dyn Store>,
    calls: AtomicU64,
    events: AtomicU64,
    claims: Mutex<Histogram>,
}

impl MeasuredStore {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        let (calls, events) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { store, calls, events, claims: Mutex::default() })
    }

    fn settle_batch(&self) -> f64 {
        self.events.load(Ordering::Relaxed) as f64 / self.calls.load(Ordering::Relaxed).max(1) as f64
    }

    pub(super) fn settled(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Latencies of the non-empty claims since the last call.
    pub(super) fn take_claims(&self) -> Histogram {
        std::mem::take(&mut *self.claims.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for MeasuredStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let started = Instant::now();
        let claimed = self.store.claim(claim).await?;
        if !claimed.events.is_empty() {
            self.claims.lock().unwrap_or_else(PoisonError::into_inner).add(started.elapsed());
        }
        Ok(claimed)
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let settled = self.store.settle(settle).await?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(settled.len() as u64, Ordering::Relaxed);
        Ok(settled)
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.store.renew(renew).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        self.store.release(release).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        self.store.park(park).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        self.store.unpark(unpark).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.store.purge_batch(purge).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.store.oldest_pending(now).await
    }

    fn wake(&self) -> Option<Notifier> {
        self.store.wake()
    }
}
