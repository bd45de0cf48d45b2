//! Ticket worker: finds due tickets and decides them.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use posthaste::{BoxError, Event, StoreError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{DueExpiry, ExpiryDecision, RedisExpiry};

/// Tickets that one worker decides concurrently.
const MAX_CONCURRENT_DECISIONS: usize = 16;

/// Maximum number of tickets per batch. More would block the server.
const MAX_BATCH_TICKETS: usize = 1000;

/// Minimum pause between batches, so that tickets that become due within it share a batch.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// Interval at which old decisions are forgotten.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

type EventFuture = Pin<Box<dyn Future<Output = Result<Event, BoxError>> + Send>>;

/// Decides due tickets. Made by [`RedisExpiry::worker`].
#[derive(Clone)]
#[must_use = "call `start` or `run_once`"]
pub struct ExpiryWorker {
    expiry: RedisExpiry,
    /// The service's function that makes the event of an expiry.
    event: Arc<dyn Fn(DueExpiry) -> EventFuture + Send + Sync>,
    batch: usize,
    interval: Duration,
    lease: Duration,
}

/// The result of one round of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReport {
    /// Tickets that have expired. Their events are stored.
    pub enqueued: usize,
    /// Tickets that were revoked earlier, or whose event a hook suppressed.
    pub suppressed: usize,
    /// Tickets whose expiry was decided earlier.
    pub already_enqueued: usize,
    /// Tickets whose expiry time was changed or removed after the worker found them.
    pub not_due: usize,
    /// Tickets that could not be decided, or whose function failed or was too slow. They are tried again after the
    /// lease has ended.
    pub failed: usize,
    /// Old decisions that were forgotten.
    pub pruned: u64,
}

impl ExpiryWorker {
    pub(super) fn new<F, Fut>(expiry: RedisExpiry, event: F) -> Self
    where
        F: Fn(DueExpiry) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Event, BoxError>> + Send + 'static,
    {
        let event = Arc::new(move |due| Box::pin(event(due)) as EventFuture);
        let (interval, lease) = (Duration::from_secs(1), Duration::from_secs(30));
        Self { expiry, event, batch: 100, interval, lease }
    }

    /// Tickets per batch, at most 1000. Default: 100.
    pub fn batch(mut self, tickets: usize) -> Self {
        self.batch = tickets.clamp(1, MAX_BATCH_TICKETS);
        self
    }

    /// Maximum pause between two batches, at least 10 ms. Default: 1 second. The pause is shorter if a ticket is known
    /// to be due earlier, and there is none after a full batch.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(MIN_PAUSE);
        self
    }

    /// How long the worker holds the tickets of a batch. Default: 30 seconds. Tickets that it has not decided by then
    /// can be taken by another worker.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Decides one batch and forgets old decisions, then returns. Fails if the server cannot be reached; tickets that
    /// could not be decided are counted in the report.
    pub async fn run_once(&self) -> Result<ExpiryReport, StoreError> {
        let mut report = self.round().await?.report;
        (report.pruned, _) = self.expiry.prune().await?;
        Ok(report)
    }

    /// Starts the worker on a background task. It runs until the handle is dropped or shut down.
    pub fn start(self) -> ExpiryHandle {
        let stop = CancellationToken::new();
        let task = Some(tokio::spawn(work_until(stop.clone(), self)));
        ExpiryHandle { stop, task }
    }

    async fn round(&self) -> Result<Round, StoreError> {
        let deadline = Instant::now() + self.lease;
        let claimed = self.expiry.claim(self.batch, self.lease).await?;
        let mut report = ExpiryReport::default();
        let decisions = claimed.due.into_iter().map(|due| self.decide(due, deadline));
        let mut decisions = stream::iter(decisions).buffer_unordered(MAX_CONCURRENT_DECISIONS);
        while let Some(decision) = decisions.next().await {
            report.count(decision);
        }
        Ok(Round { report, is_full: claimed.is_full, next_due: claimed.next_due })
    }

    /// Requests the event and decides; `None` if either failed.
    async fn decide(&self, due: DueExpiry, deadline: Instant) -> Option<ExpiryDecision> {
        let ticket = &due.ticket_id;
        let event = AssertUnwindSafe(async { (self.event)(due.clone()).await }).catch_unwind();
        let event = match timeout_at(deadline, event).await {
            Ok(Ok(Ok(event))) => event,
            Ok(Ok(Err(_may_quote_anything))) => {
                tracing::warn!(%ticket, "the function for the event of a ticket failed; it will be tried again");
                return None;
            }
            Ok(Err(_panic)) => {
                tracing::error!(%ticket, "the function for the event of a ticket panicked; it will be tried again");
                return None;
            }
            Err(_late) => {
                tracing::warn!(%ticket, "the event of a ticket was not made within the lease; it will be tried again");
                return None;
            }
        };
        match self.expiry.decide_expiry(&due, event, None).await {
            Ok(decision) => Some(decision),
            Err(error) => {
                tracing::warn!(%ticket, %error, "an expired ticket could not be decided; it will be tried again");
                None
            }
        }
    }

    /// The pause after a round. There is none after a full batch, unless tickets failed or were not due. The leases of
    /// failed tickets have to end first.
    fn pause_after(&self, round: &Round) -> Duration {
        let is_clean = round.report.failed == 0 && round.report.not_due == 0;
        if round.is_full && is_clean {
            return Duration::ZERO;
        }
        round.next_due.unwrap_or(self.interval).clamp(MIN_PAUSE, self.interval)
    }
}

/// One batch, and what is known about the next one.
struct Round {
    report: ExpiryReport,
    is_full: bool,
    next_due: Option<Duration>,
}

impl ExpiryReport {
    fn count(&mut self, decision: Option<ExpiryDecision>) {
        *match decision {
            Some(ExpiryDecision::Enqueued) => &mut self.enqueued,
            Some(ExpiryDecision::SuppressedRevoked | ExpiryDecision::SuppressedByHook) => {
                &mut self.suppressed
            }
            Some(ExpiryDecision::AlreadyEnqueued) => &mut self.already_enqueued,
            Some(ExpiryDecision::NotDue) => &mut self.not_due,
            None => &mut self.failed,
        } += 1;
    }
}

/// The worker's loop. A batch in progress is finished before it stops, which takes at most a lease.
async fn work_until(stop: CancellationToken, worker: ExpiryWorker) {
    let mut prune_at = Instant::now();
    loop {
        let pause = match worker.round().await {
            Ok(round) => worker.pause_after(&round),
            Err(error) => {
                tracing::warn!(%error, "looking for expired tickets failed; it will be tried again");
                worker.interval
            }
        };
        if prune_at <= Instant::now() {
            prune_at = prune(&worker.expiry).await;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Forgets old decisions; returns when to do this again.
async fn prune(expiry: &RedisExpiry) -> Instant {
    match expiry.prune().await {
        Ok((_, true)) => Instant::now(),
        Ok((_, false)) => Instant::now() + PRUNE_INTERVAL,
        Err(error) => {
            tracing::warn!(%error, "forgetting old decisions about tickets failed; it will be tried again");
            Instant::now() + PRUNE_INTERVAL
        }
    }
}

impl fmt::Debug for ExpiryWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, interval, lease, .. } = self;
        write!(f, "ExpiryWorker({batch} tickets at least every {interval:?}, leased for {lease:?})")
    }
}

/// A running ticket worker. Dropping it stops the worker.
#[derive(Debug)]
#[must_use = "the worker stops when this is dropped"]
pub struct ExpiryHandle {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ExpiryHandle {
    /// Stops the worker after the batch in progress, and waits for that, at most about a lease. Calling it twice is
    /// fine.
    pub async fn shutdown(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // The task cannot panic, and it is not aborted.
            let _ = task.await;
        }
    }
}

impl Drop for ExpiryHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
