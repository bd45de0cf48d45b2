//! Metrics of this store beyond those of every outbox, through the `metrics` facade.
//!
//! The recorder is looked up at each use, because the application may install it after opening the store.

use crate::RedisStore;
use crate::repair::Repaired;

/// Metrics of one outbox; the name is a label of every series.
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

    /// Counts events that a Writer stored, and ids that existed already.
    pub(crate) fn enqueued(&self, stored: usize, duplicates: usize) {
        self.count("outbox.redis.enqueued", stored as u64);
        self.count("outbox.redis.duplicates", duplicates as u64);
    }
}

impl RedisStore {
    /// Counts events that became DEAD. The metric's name is older than that word.
    pub(crate) fn count_dead(&self, dead: usize) {
        self.0.metrics.count("outbox.redis.parked_failed", dead as u64);
    }

    /// Counts members without a body that claims met. The repair removes them.
    pub(crate) fn count_orphans_met(&self, orphans: u64) {
        self.0.metrics.count("outbox.redis.orphans.met", orphans);
    }

    /// Counts and logs what the repair fixed.
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
                "the repair fixed incomplete rows, which a failed script or another program left"
            );
        }
    }
}
