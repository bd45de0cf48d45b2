//! The worker that finds tickets whose time has come, and decides about them.

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

/// How many tickets are decided at the same time.
const MAX_CONCURRENT_DECISIONS: usize = 16;

/// The most tickets of one batch: more would keep other clients of the server waiting.
const MAX_BATCH_TICKETS: usize = 1000;

/// Tickets that become due within this time are decided together.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// How often old decisions are forgotten.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

type EventFuture = Pin<Box<dyn Future<Output = Result<Event, BoxError>> + Send>>;

/// Decides about tickets whose time has come; made by [`RedisExpiry::worker`].
#[derive(Clone)]
#[must_use = "call `start` or `run_once`"]
pub struct ExpiryWorker {
    expiry: RedisExpiry,
    event: Arc<dyn Fn(DueExpiry) -> EventFuture + Send + Sync>,
    batch: usize,
    interval: Duration,
    lease: Duration,
}

/// What one round of a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReport {
    /// Tickets that have expired: their events are stored.
    pub enqueued: usize,
    /// Tickets that were revoked before, or whose event a hook left out.
    pub suppressed: usize,
    /// Tickets about which the same was decided before.
    pub already_enqueued: usize,
    /// Tickets that got another time, or none, after the worker found them.
    pub not_due: usize,
    /// Tickets whose function failed or was too slow, or that could not be decided: they are due again when
    /// the lease has ended.
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

    /// How many tickets to take at once, at most 1000. Default: 100.
    pub fn batch(mut self, tickets: usize) -> Self {
        self.batch = tickets.clamp(1, MAX_BATCH_TICKETS);
        self
    }

    /// How long to wait at most before looking again. Default: a second; less if a ticket is known to be due
    /// sooner, and not at all after a full batch.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(MIN_PAUSE);
        self
    }

    /// How long the tickets of a batch are this worker's own. Default: 30 seconds. What it has not decided by
    /// then is taken over by another one.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Decides about one batch and forgets old decisions, without waiting.
    pub async fn run_once(&self) -> Result<ExpiryReport, StoreError> {
        let mut report = self.round().await?.report;
        (report.pruned, _) = self.expiry.prune().await?;
        Ok(report)
    }

    /// Works in the background until the handle is dropped or shut down.
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

    /// Gets the event and decides; `None` if either failed.
    async fn decide(&self, due: DueExpiry, deadline: Instant) -> Option<ExpiryDecision> {
        let ticket = &due.ticket_id;
        let event = AssertUnwindSafe(async { (self.event)(due.clone()).await }).catch_unwind();
        let event = match timeout_at(deadline, event).await {
            Ok(Ok(Ok(event))) => event,
            Ok(Ok(Err(_may_quote_anything))) => {
                tracing::warn!(%ticket, "no event for a ticket that expires: its function failed; trying again");
                return None;
            }
            Ok(Err(_panic)) => {
                tracing::error!(%ticket, "no event for a ticket that expires: its function panicked; trying again");
                return None;
            }
            Err(_late) => {
                tracing::warn!(%ticket, "no event for a ticket that expires within the lease; trying again");
                return None;
            }
        };
        match self.expiry.decide_expiry(&due, event, None).await {
            Ok(decision) => Some(decision),
            Err(error) => {
                tracing::warn!(%ticket, %error, "a ticket that expires could not be decided; trying again");
                None
            }
        }
    }

    /// How long to wait after a round. Tickets that failed are no reason to go on immediately.
    fn pause_after(&self, round: &Round) -> Duration {
        let is_clean = round.report.failed == 0 && round.report.not_due == 0;
        if round.is_full && is_clean {
            return Duration::ZERO;
        }
        round.next_due.unwrap_or(self.interval).clamp(MIN_PAUSE, self.interval)
    }
}

/// One batch, and what is known about the next.
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

/// A batch that has begun is finished, which takes no longer than its lease.
async fn work_until(stop: CancellationToken, worker: ExpiryWorker) {
    let mut prune_at = Instant::now();
    loop {
        let pause = match worker.round().await {
            Ok(round) => worker.pause_after(&round),
            Err(error) => {
                tracing::warn!(%error, "tickets that expire could not be looked for; trying again");
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

/// Forgets old decisions, and returns when to do so again.
async fn prune(expiry: &RedisExpiry) -> Instant {
    match expiry.prune().await {
        Ok((_, true)) => Instant::now(),
        Ok((_, false)) => Instant::now() + PRUNE_INTERVAL,
        Err(error) => {
            tracing::warn!(%error, "old decisions about tickets could not be forgotten; trying again");
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

/// An expiry worker at work. Dropped, it stops.
#[derive(Debug)]
#[must_use = "dropped, the worker stops"]
pub struct ExpiryHandle {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ExpiryHandle {
    /// Stops after the batch under way, and waits until it has, at most about a lease. Twice is harmless.
    pub async fn shutdown(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // It only ends; it cannot fail.
            let _ = task.await;
        }
    }
}

impl Drop for ExpiryHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
