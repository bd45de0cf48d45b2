//! The engine: delivers events, from a commit or a claim to a settled outcome.
//!
//! [`EngineState`] is shared by the engine's tasks; [`Engine`] starts and stops the tasks. The engine never sees a
//! user's transaction or a driver's type.
//!
//! # Locks
//!
//! `polling` is held for a whole poll, across awaits. Every other lock is a `std` mutex inside one of the parts below.
//! A `std` mutex is held for a few instructions, never across an await, and no two of them at the same time, so there
//! is no order in which they have to be taken.

mod attempt;
mod breaker;
mod claim_bytes;
mod commit_confirmer;
mod dispatch;
mod gauges;
mod hot_path;
mod inflight;
mod lease_renewer;
mod lifecycle;
mod poller;
mod purger;
mod queued_event;
mod rate_limiter;
mod retry_timer;
mod route_queue;
mod route_state;
mod settler;
mod spans;
mod suspect_event;
mod verdict;
mod warn_limit;
mod work_queue;
mod worker;
mod write_back_buffer;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};

pub(crate) use hot_path::{HotPath, Proof, Written};
pub(crate) use lifecycle::Engine;
pub use lifecycle::ShutdownReport;
pub(crate) use poller::Polled;

use crate::config::Settings;
use crate::error::{StoreError, error_text};
use crate::interceptor::Interceptor;
use crate::metrics::Metrics;
use crate::route::RouteTable;
use crate::store::{Lease, Notifier, Owner, Store};
use route_state::RouteStates;

/// State of a running engine, shared by its tasks.
pub(crate) struct EngineState {
    pub(crate) settings: Settings,
    /// `locked_by` of every row that this engine leases. Random per engine, so that a restarted process does not take
    /// over its own old leases.
    owner: Owner,
    store: Arc<dyn Store>,
    routes: RouteTable,
    interceptors: Vec<Arc<dyn Interceptor>>,
    metrics: Metrics,
    /// Per route: its breaker, whether an operator paused it, and whether parked rows wait for it.
    route_states: RouteStates,
    /// Events that wait for a worker. Filled by the hot path and the poller, emptied by the workers.
    queue: work_queue::WorkQueue,
    /// Every event that this engine holds, from enqueue to settlement, with the end of its lease.
    inflight: inflight::InFlight,
    /// Settlements, parks and releases on their way to the store. Emptied by the settler.
    write_back: write_back_buffer::WriteBackBuffer,
    /// Events whose commit only the caller vouches for. Filled by the hot path, emptied by the confirmer.
    confirmer: commit_confirmer::Confirmer,
    /// When events that this engine deferred, or that failed here, are due again. Read by the poller.
    retry_timer: retry_timer::RetryTimer,
    /// Wakes the poller: this process knows of rows to claim, or of a route to unpark.
    poll_notifier: Notifier,
    /// Serialises polls: the poller and `Outbox::poll_once` never claim at the same time. Strict order depends on it.
    polling: tokio::sync::Mutex<()>,
    /// How many bytes the next claim may return.
    claim_bytes: claim_bytes::ClaimBytes,
    /// Park reasons of rows in the store that name a route which this engine does not have.
    others_parked: Mutex<route_state::OthersParked>,
    /// When this engine was created. A suspect is started only after the engine has lived for a while.
    started: Instant,
    warn_limit: warn_limit::WarnLimit,
    /// Set when shutdown begins or the engine is dropped, and never reset. From then on no row is born leased.
    stopping: AtomicBool,
}

impl EngineState {
    pub(crate) fn new(
        settings: Settings,
        store: Arc<dyn Store>,
        routes: RouteTable,
        interceptors: Vec<Arc<dyn Interceptor>>,
    ) -> Self {
        let metrics = Metrics::new(&settings, routes.entries().iter().map(|route| route.name.as_str()));
        Self {
            owner: Owner::of_this_process(&settings.name),
            metrics,
            route_states: RouteStates::new(routes.entries().len()),
            queue: work_queue::WorkQueue::new(settings.queue.clone(), &routes, settings.is_strict()),
            inflight: inflight::InFlight::default(),
            write_back: write_back_buffer::WriteBackBuffer::default(),
            confirmer: commit_confirmer::Confirmer::default(),
            retry_timer: retry_timer::RetryTimer::default(),
            poll_notifier: Notifier::new(),
            polling: tokio::sync::Mutex::default(),
            claim_bytes: claim_bytes::ClaimBytes::default(),
            others_parked: Mutex::default(),
            started: Instant::now(),
            warn_limit: warn_limit::WarnLimit::default(),
            stopping: AtomicBool::new(false),
            settings,
            store,
            routes,
            interceptors,
        }
    }

    /// Polls once.
    pub(crate) async fn poll_once(&self) -> Result<Polled, StoreError> {
        poller::poll(self).await
    }

    /// Purges once.
    pub(crate) async fn purge_once(&self) -> Result<u64, StoreError> {
        purger::purge(self).await
    }

    /// How many events this engine holds.
    pub(crate) fn held(&self) -> usize {
        self.inflight.len()
    }

    /// Waits until nothing is queued, running or on its way to the store.
    pub(crate) async fn quiet(&self) {
        loop {
            self.confirmer.quiet().await;
            self.inflight.empty().await;
            self.write_back.quiet().await;
            if self.is_quiet() {
                return;
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.confirmer.is_quiet() && self.inflight.len() == 0 && self.write_back.is_quiet()
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Calls the store. Limits the time to `store_timeout`, turns a panic of the store into an error, and counts and
    /// logs errors.
    async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.settings.store_timeout;
        // A panic in a store's code becomes an error, so that the caller does not lose the events that it holds.
        let call = AssertUnwindSafe(call).catch_unwind();
        let result = match timeout(limit, call).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(StoreError::backend("panicking", "the store's own code panicked")),
            Err(_) => Err(StoreError::Timeout(limit)),
        };
        if let Err(error) = &result {
            self.metrics.store_errors.increment(1);
            tracing::error!(outbox = %self.settings.name, call = what, error = %error_text(error), "the store failed");
        }
        result
    }

    /// The settlements of these events are written. An event that this engine claimed again in the meantime is
    /// released.
    fn finished<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) {
        let newer = self.inflight.finish(leases);
        if !newer.is_empty() {
            self.write_back.release(newer, Instant::now());
        }
    }

    /// Releases events that were claimed but not started.
    fn give_back(&self, leases: Vec<Lease>) {
        self.inflight.forget(leases.iter().map(|lease| (&lease.id, lease.seq)));
        self.write_back.release(leases, Instant::now());
    }

    /// Releases queued events whose lease this engine still holds. Returns how many.
    fn give_back_queued(&self, items: &[queued_event::QueuedEvent]) -> usize {
        let now = Instant::now();
        let leases: Vec<Lease> =
            items.iter().filter_map(|item| self.inflight.start(item.id(), item.seq, now)).collect();
        let count = leases.len();
        self.give_back(leases);
        count
    }
}

impl std::fmt::Debug for EngineState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("owner", &self.owner)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}
