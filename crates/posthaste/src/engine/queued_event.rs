//! A queued event, with what the engine knows about it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::destination::{Delivery, Source};
use crate::event::EventId;
use crate::store::SUSPECT_LOST_LEASES;

/// An event that waits for a worker.
#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) delivery: Delivery,
    /// `seq` of its row.
    pub(crate) seq: i64,
    /// How often a lease of the row lapsed; from [`SUSPECT_LOST_LEASES`] on the event is a suspect.
    pub(crate) lost_leases: u32,
    /// Index into the route table; the number of routes for an event without a route.
    pub(crate) route: usize,
    /// Destinations of a fan-out that have the event already.
    pub(crate) progress: BTreeSet<String>,
    /// It may pass an open breaker, to find out whether the destination is reachable again.
    pub(crate) probe: bool,
    /// When it was inserted, on the monotonic clock. The latency histogram counts from here.
    pub(crate) since: Instant,
    /// Its number in the order of arrival. Set by the queue.
    pub(crate) arrival: u64,
}

impl QueuedEvent {
    pub(crate) fn id(&self) -> &EventId {
        self.delivery.event.id()
    }

    /// The id and `seq` of its row.
    pub(crate) fn row(&self) -> (&EventId, i64) {
        (self.id(), self.seq)
    }

    /// Whether it may be what kills the processes that own it.
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
