//! The engine: from a commit or a claim to a settled outcome.
//!
//! [`EngineState`] is shared by the tasks; [`Engine`] starts and stops them. The engine holds no user's
//! transaction and sees no driver's type.

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

/// The state of a running engine, shared by its tasks.
pub(crate) struct EngineState {
    pub(crate) settings: Settings,
    owner: Owner,
    store: Arc<dyn Store>,
    routes: RouteTable,
    interceptors: Vec<Arc<dyn Interceptor>>,
    metrics: Metrics,
    route_states: RouteStates,
    queue: work_queue::WorkQueue,
    inflight: inflight::InFlight,
    write_back: write_back_buffer::WriteBackBuffer,
    confirmer: commit_confirmer::Confirmer,
    retry_timer: retry_timer::RetryTimer,
    /// Notified when this process knows of something to claim.
    poll_notifier: Notifier,
    /// One poll at a time.
    polling: tokio::sync::Mutex<()>,
    claim_bytes: claim_bytes::ClaimBytes,
    others_parked: Mutex<route_state::OthersParked>,
    /// When this engine began to live.
    started: Instant,
    warn_limit: warn_limit::WarnLimit,
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

    /// One poll.
    pub(crate) async fn poll_once(&self) -> Result<Polled, StoreError> {
        poller::poll(self).await
    }

    /// One purge.
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

    /// A call to the store, bounded in time and counted when it fails.
    async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.settings.store_timeout;
        // A panic in a store's code is an error like any other: what the caller holds is not lost.
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

    /// The outcomes of these events are written. What was claimed again meanwhile goes back.
    fn finished<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) {
        let newer = self.inflight.finish(leases);
        if !newer.is_empty() {
            self.write_back.release(newer, Instant::now());
        }
    }

    /// Gives back events that were claimed but not started.
    fn give_back(&self, leases: Vec<Lease>) {
        self.inflight.forget(leases.iter().map(|lease| (&lease.id, lease.seq)));
        self.write_back.release(leases, Instant::now());
    }

    /// Gives back what was queued, as far as it is still ours; answers how many.
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
