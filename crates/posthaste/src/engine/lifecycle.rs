//! The life cycle of the engine: starts its tasks, restarts one that panicked, and stops them in the right order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{EngineState, commit_confirmer, gauges, lease_renewer, poller, purger, settler, worker};
use crate::config::Mode;

/// How long the last writes to the store may take after the drain.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A running engine. Dropping it stops every task immediately; the events that it held are delivered after their leases
/// have lapsed. [`shutdown`](Self::shutdown) finishes them first.
#[derive(Debug)]
pub(crate) struct Engine {
    state: Arc<EngineState>,
    workers: JoinSet<()>,
    purger: Option<AbortOnDropHandle<()>>,
    poller: Option<AbortOnDropHandle<()>>,
    settler: Option<AbortOnDropHandle<()>>,
    /// Tasks that are stopped by dropping their handles.
    background: Vec<AbortOnDropHandle<()>>,
    stop_poller: CancellationToken,
    stop_settler: CancellationToken,
}

/// What a shutdown could not finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Events that were waiting and were released to the store.
    pub released: usize,
    /// Events that were still being delivered at the end of the drain. They are delivered again when their leases have
    /// lapsed.
    pub abandoned: usize,
}

impl Engine {
    pub(crate) fn start(state: Arc<EngineState>) -> Self {
        let mut engine = Self {
            workers: JoinSet::new(),
            purger: None,
            poller: None,
            settler: None,
            background: Vec::new(),
            stop_poller: CancellationToken::new(),
            stop_settler: CancellationToken::new(),
            state,
        };
        engine.start_purger();
        if engine.state.settings.mode != Mode::WriterOnly {
            engine.start_delivery();
        }
        engine
    }

    fn start_purger(&mut self) {
        self.purger = Some(self.spawn("purger", purger::run));
    }

    fn start_delivery(&mut self) {
        for _ in 0..self.state.settings.workers {
            self.workers.spawn(worker::run(Arc::clone(&self.state)));
        }
        let stop = self.stop_settler.clone();
        self.settler = Some(self.spawn("settler", move |state| settler::run(state, stop.clone())));
        let stop = self.stop_poller.clone();
        self.poller = Some(self.spawn("poller", move |state| poller::run(state, stop.clone())));
        self.background = vec![
            self.spawn("keeper", lease_renewer::run),
            self.spawn("confirmer", commit_confirmer::run),
            self.spawn("meter", gauges::run),
        ];
    }

    /// Runs one task. A panic is logged and the task starts again after a second; only a store's code can cause one.
    fn spawn<F, Fut>(&self, part: &'static str, run: F) -> AbortOnDropHandle<()>
    where
        F: Fn(Arc<EngineState>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let state = Arc::clone(&self.state);
        AbortOnDropHandle::new(tokio::spawn(async move {
            while AssertUnwindSafe(run(Arc::clone(&state))).catch_unwind().await.is_err() {
                tracing::error!(outbox = %state.settings.name, part, "a part of the engine panicked; it starts again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }))
    }

    /// Stops the hot path and claims, lets the workers continue until the drain limit, releases what is still queued,
    /// and writes every settlement.
    pub(crate) async fn shutdown(self) -> ShutdownReport {
        self.stop(|state| state.give_back_queued(&state.queue.drain())).await
    }

    /// The same, but the workers only finish what they have begun. Queued events are released immediately, for the next
    /// engine.
    pub(crate) async fn retire(self) -> ShutdownReport {
        self.stop(|state| state.give_back_queued(&state.queue.close())).await
    }

    /// Stops the tasks in this order: purger, poller, workers, settler, background tasks. `begin` stops the queue and
    /// returns how many events it released.
    async fn stop(mut self, begin: impl FnOnce(&EngineState) -> usize) -> ShutdownReport {
        let state = Arc::clone(&self.state);
        state.stopping.store(true, Ordering::Release);
        let deadline = Instant::now() + state.settings.drain;
        drop(self.purger.take());
        self.stop_poller.cancel();
        let released = begin(&state);
        state.metrics.close_breakers();
        let workers = timeout_at(deadline, async { while self.workers.join_next().await.is_some() {} });
        // The queue refuses what a claim still returns, so those rows are released.
        let _ =
            tokio::join!(workers, finish(self.poller.take(), deadline.max(Instant::now() + FLUSH_TIMEOUT)));

        let released = released + state.give_back_queued(&state.queue.close());

        // Aborted workers end at their next await. A worker that blocks its thread has none and is left behind.
        self.workers.abort_all();
        let aborted = async { while self.workers.join_next().await.is_some() {} };
        let _ = timeout_at(deadline.max(Instant::now() + FLUSH_TIMEOUT), aborted).await;
        self.stop_settler.cancel();
        finish(self.settler.take(), deadline.max(Instant::now() + FLUSH_TIMEOUT)).await;
        self.background.clear();
        state.metrics.close();
        let report = ShutdownReport { released, abandoned: state.held() };
        tracing::info!(
            outbox = %state.settings.name,
            released = report.released,
            abandoned = report.abandoned,
            "outbox stopped"
        );
        report
    }
}

/// However an engine ends, no row is born leased to it afterwards.
impl Drop for Engine {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
    }
}

/// Waits until a task ends by itself, and stops it at the deadline.
async fn finish(part: Option<AbortOnDropHandle<()>>, until: Instant) {
    if let Some(part) = part {
        let _ = timeout_at(until, part).await;
    }
}
