//! Counts what the service and the destinations saw themselves, not what the outbox says of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use posthaste::{Delivery, Event, EventId, Source, WriterHook};

use crate::figures::{Histogram, Quantiles};

/// Shared by the service and the destinations.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    committed: u64,
    rolled_back: HashSet<EventId>,
    delivered: HashSet<EventId>,
    duplicates: u64,
    hot: u64,
    polled: u64,
    /// Since when an event that no destination has seen yet could have been delivered.
    due: HashMap<EventId, Instant>,
    hot_latency: Histogram,
    polled_latency: Histogram,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TallySnapshot {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Different events that a destination took.
    pub(super) delivered: u64,
    /// Deliveries of an event that had been taken before.
    pub(super) duplicates: u64,
    /// Events that were taken although their transaction was rolled back.
    pub(super) invented: u64,
    /// Of the delivered: straight from the commit, and through the store.
    pub(super) hot: u64,
    pub(super) polled: u64,
    pub(super) hot_latency: Option<Quantiles>,
    pub(super) polled_latency: Option<Quantiles>,
}

impl Tally {
    pub(super) fn committed(&self) {
        self.lock().committed += 1;
    }

    pub(super) fn rolled_back(&self, id: &EventId) {
        self.lock().rolled_back.insert(id.clone());
    }

    /// The COMMIT of this event is answered, or about to be sent by a writer without hooks. A delay
    /// that was asked for is not latency.
    pub(super) fn starts_waiting(&self, event: &Event) {
        let due = Instant::now() + event.delay().unwrap_or_default();
        self.lock().due.insert(event.id().clone(), due);
    }

    /// A destination is called with this event, whatever it will answer.
    pub(super) fn called(&self, delivery: &Delivery) {
        let now = Instant::now();
        let mut counts = self.lock();
        let Some(due) = counts.due.remove(delivery.id()) else { return };
        let waited = now.saturating_duration_since(due);
        match delivery.source {
            Source::Hot => counts.hot_latency.add(waited),
            Source::Cold => counts.polled_latency.add(waited),
        }
    }

    /// A destination takes this event.
    pub(super) fn delivered(&self, delivery: &Delivery) {
        let mut counts = self.lock();
        if !counts.delivered.insert(delivery.id().clone()) {
            counts.duplicates += 1;
            return;
        }
        match delivery.source {
            Source::Hot => counts.hot += 1,
            Source::Cold => counts.polled += 1,
        }
    }

    pub(super) fn snapshot(&self) -> TallySnapshot {
        let counts = self.lock();
        let invented = counts.rolled_back.iter().filter(|id| counts.delivered.contains(*id)).count();
        TallySnapshot {
            committed: counts.committed,
            rolled_back: counts.rolled_back.len() as u64,
            delivered: counts.delivered.len() as u64,
            duplicates: counts.duplicates,
            invented: invented as u64,
            hot: counts.hot,
            polled: counts.polled,
            hot_latency: counts.hot_latency.quantiles(),
            polled_latency: counts.polled_latency.quantiles(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the clock of every event between the answer to COMMIT and the hot path.
pub(super) struct CommitClock(pub(super) std::sync::Arc<Tally>);

impl WriterHook for CommitClock {
    fn after_commit(&self, events: &[Event]) {
        for event in events {
            self.0.starts_waiting(event);
        }
    }
}
