//! The queue of one route: its events that wait for a worker, hot and cold.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::queued_event::QueuedEvent;
use super::rate_limiter::RateLimiter;
use crate::destination::Source;

/// One call of a destination gets at most so many bytes, if it gets more than one event: publishers make
/// copies of what they send, and each worker has its own.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The waiting events of one route, and what limits how fast they start.
#[derive(Debug)]
pub(super) struct RouteQueue {
    pub(super) hot: VecDeque<QueuedEvent>,
    pub(super) cold: VecDeque<QueuedEvent>,
    pub(super) running: usize,
    /// Of what waits and of what runs.
    pub(super) bytes: usize,
    pub(super) concurrency: usize,
    batch: usize,
    rate_limiter: Option<RateLimiter>,
}

/// Whether a route can start something.
pub(super) enum Readiness {
    Empty,
    Busy,
    At(Instant),
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

    /// Takes up to a batch, the given side first.
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

    /// A delivery of so many events begins.
    pub(super) fn begin(&mut self, events: usize, now: Instant) {
        self.running += 1;
        if let Some(limiter) = &mut self.rate_limiter {
            limiter.spend(events, now);
        }
    }
}
