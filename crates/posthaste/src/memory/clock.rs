//! The store's clock: it follows Tokio's time, so that paused tests move it, and it can be stepped.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::{Timestamp, micros};

/// The wall-clock time at creation, plus the time passed on Tokio's clock, plus every step.
#[derive(Debug)]
pub(super) struct Clock {
    base: Timestamp,
    started: Instant,
    offset_micros: AtomicI64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { base: Timestamp::now(), started: Instant::now(), offset_micros: AtomicI64::new(0) }
    }

    pub(super) fn now(&self) -> Timestamp {
        let running = self.base + self.started.elapsed();
        let offset = self.offset_micros.load(Ordering::Relaxed);
        Timestamp::from_micros(running.as_micros().saturating_add(offset))
    }

    pub(super) fn step(&self, forward: bool, by: Duration) {
        let by = if forward { micros(by) } else { micros(by).saturating_neg() };
        let add = |offset: i64| Some(offset.saturating_add(by));
        // The closure always returns `Some`, so the update always succeeds.
        let _ = self.offset_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}
