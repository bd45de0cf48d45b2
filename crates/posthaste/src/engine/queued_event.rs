//! An event in a queue, with what the engine knows of it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::destination::{Delivery, Source};
use crate::event::EventId;
use crate::store::SUSPECT_LOST_LEASES;

/// An event that waits for a worker.
#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) delivery: Delivery,
    /// Its row's number in the store.
    pub(crate) seq: i64,
    pub(crate) lost_leases: u32,
    pub(crate) route: usize,
    pub(crate) progress: BTreeSet<String>,
    /// Lets it pass an open breaker, to see whether the destination is back.
    pub(crate) probe: bool,
    /// Since when it has been waiting, on the monotonic clock.
    pub(crate) since: Instant,
    /// Its place among all that came before it; set by the queue.
    pub(crate) arrival: u64,
}

impl QueuedEvent {
    pub(crate) fn id(&self) -> &EventId {
        self.delivery.event.id()
    }

    /// What names its row.
    pub(crate) fn row(&self) -> (&EventId, i64) {
        (self.id(), self.seq)
    }

    /// Whether it may be what kills its owners.
    pub(crate) fn is_suspect(&self) -> bool {
        self.lost_leases >= SUSPECT_LOST_LEASES
    }

    pub(crate) fn weight(&self) -> usize {
        self.delivery.event.weight()
    }

    pub(crate) fn source(&self) -> Source {
        self.delivery.source
    }
}
