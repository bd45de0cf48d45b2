//! What this store reports beyond what every outbox does, through the `metrics` facade.
//!
//! Recorders are asked at each use: a store may be opened before the application installs its own.

use posthaste::store::Settled;

use crate::RedisStore;

/// The label of every series.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    outbox: String,
}

impl Metrics {
    pub(crate) fn new(outbox: String) -> Self {
        Self { outbox }
    }

    fn count(&self, name: &'static str, n: u64) {
        if n > 0 {
            metrics::counter!(name, "outbox" => self.outbox.clone()).increment(n);
        }
    }

    /// Events that a Writer stored, and ids that existed already.
    pub(crate) fn enqueued(&self, stored: usize, duplicates: usize) {
        self.count("outbox.redis.enqueued", stored as u64);
        self.count("outbox.redis.duplicates", duplicates as u64);
    }
}

impl RedisStore {
    /// Events that are parked as FAILED, which this store calls DEAD.
    pub(crate) fn count_dead(&self, settled: &[Settled]) {
        let dead = settled.iter().filter(|settled| matches!(settled, Settled::Dead { .. })).count();
        self.0.metrics.count("outbox.redis.parked_failed", dead as u64);
    }

    /// Members without a body, which the repair worker removes.
    pub(crate) fn count_orphans_met(&self, orphans: u64) {
        self.0.metrics.count("outbox.redis.orphans.met", orphans);
    }
}
