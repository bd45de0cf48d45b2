//! The queue of one route: its hot and cold events that wait for a worker.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::queued_event::QueuedEvent;
use super::rate_limiter::RateLimiter;
use crate::destination::Source;

/// The most bytes per call of a destination, unless a single event is larger. Publishers copy what they send, and each
/// worker has such a copy.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The waiting events of one route, and the limits on how fast they start.
#[derive(Debug)]
pub(super) struct RouteQueue {
    /// Events straight from a commit, oldest first.
    pub(super) hot: VecDeque<QueuedEvent>,
    /// Claimed events, in the order of their claim.
    pub(super) cold: VecDeque<QueuedEvent>,
    /// Deliveries of this route under way.
    pub(super) running: usize,
    /// Bytes of the events that wait and of those that are being delivered.
    pub(super) bytes: usize,
    /// The most deliveries at the same time.
    pub(super) concurrency: usize,
    /// The most events per delivery.
    batch: usize,
    rate_limiter: Option<RateLimiter>,
}

/// Whether a route can start a delivery.
pub(super) enum Readiness {
    /// No event of this source waits.
    Empty,
    /// As many deliveries are under way as the route allows.
    Busy,
    /// The rate limit allows the next event at this instant.
    At(Instant),
    /// A delivery can start now.
    Ready,
}

impl RouteQueue {
    pub(super) fn new(concurrency: usize, batch: usize, rate: Option<f64>) -> Self {
        Self {
            hot: VecDeque::new(),
            cold: VecDeque::new(),
            running: 0,
            bytes: 0,
            concurrency,
            batch,
            rate_limiter: rate.map(RateLimiter::per_second),
        }
    }

    pub(super) fn side(&mut self, source: Source) -> &mut VecDeque<QueuedEvent> {
        match source {
            Source::Hot => &mut self.hot,
            Source::Cold => &mut self.cold,
        }
    }

    pub(super) fn ready(&mut self, side: Source, now: Instant) -> Readiness {
        if self.side(side).is_empty() {
            return Readiness::Empty;
        }
        if self.running >= self.concurrency {
            return Readiness::Busy;
        }
        match self.rate_limiter.as_ref().map_or(Duration::ZERO, |limiter| limiter.wait(now)) {
            Duration::ZERO => Readiness::Ready,
            wait => Readiness::At(now + wait),
        }
    }

    /// Takes up to a batch, beginning with events of the given source.
    pub(super) fn start(&mut self, side: Source, now: Instant) -> Vec<QueuedEvent> {
        let (first, second) = match side {
            Source::Hot => (&mut self.hot, &mut self.cold),
            Source::Cold => (&mut self.cold, &mut self.hot),
        };
        let mut bytes = 0_usize;
        let fitting = first.iter().chain(second.iter()).take(self.batch).take_while(|item| {
            bytes = bytes.saturating_add(item.weight());
            bytes <= MAX_BATCH_BYTES
        });
        let count = fitting.count().max(1);
        let of_first = first.len().min(count);
        let of_second = second.len().min(count - of_first);
        let items: Vec<QueuedEvent> = first.drain(..of_first).chain(second.drain(..of_second)).collect();
        self.begin(items.len(), now);
        items
    }

    /// A delivery of this many events begins.
    pub(super) fn begin(&mut self, events: usize, now: Instant) {
        self.running += 1;
        if let Some(limiter) = &mut self.rate_limiter {
            limiter.spend(events, now);
        }
    }
}
