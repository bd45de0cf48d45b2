//! What this store reports beyond what every outbox does, through the `metrics` facade.
//!
//! Recorders are asked at each use: a store may be opened before the application installs its own.

use crate::RedisStore;
use crate::repair::Repaired;

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
    pub(crate) fn count_dead(&self, dead: usize) {
        self.0.metrics.count("outbox.redis.parked_failed", dead as u64);
    }

    /// Members without a body, which the repair removes.
    pub(crate) fn count_orphans_met(&self, orphans: u64) {
        self.0.metrics.count("outbox.redis.orphans.met", orphans);
    }

    /// What the repair found.
    pub(crate) fn count_repaired(&self, repaired: Repaired) {
        let metrics = &self.0.metrics;
        metrics.count("outbox.redis.repaired.bodies", repaired.bodies);
        metrics.count("outbox.redis.repaired.members", repaired.members);
        metrics.count("outbox.redis.repaired.rows", repaired.rows);
        if !repaired.is_empty() {
            tracing::warn!(
                outbox = %self.keys().name(),
                bodies = repaired.bodies,
                members = repaired.members,
                rows = repaired.rows,
                "something was half done, and is repaired"
            );
        }
    }
}
