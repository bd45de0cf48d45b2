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
    /// `lost_leases` of its row. Counts lapsed leases that another owner took over, up to [`SUSPECT_LOST_LEASES`], and
    /// after that deliveries that began. From [`SUSPECT_LOST_LEASES`] on the event is a suspect.
    pub(crate) lost_leases: u32,
    /// Index into the route table. For an event without a route it equals the number of routes.
    pub(crate) route: usize,
    /// Destinations of a fan-out that have the event already.
    pub(crate) progress: BTreeSet<String>,
    /// It is the probe: it is delivered although the breaker has closed its route.
    pub(crate) probe: bool,
    /// When it was inserted, on the monotonic clock; for a commit that only the caller reported, when the confirmer
    /// asked the store. The latency histogram counts from here.
    pub(crate) since: Instant,
    /// Its number in the order of arrival. Set by the queue; zero for a suspect.
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
