//! Counts of what the service and the destinations observed, independently of the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use posthaste::{Delivery, Event, EventId, Source, WriterHook};

use posthaste_measurements::{Histogram, Quantiles};
use serde::Serialize;

/// Counts that the service and the destinations share. The lock is never held across an await.
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
    /// When an event became deliverable, until a destination is called with it.
    due: HashMap<EventId, Instant>,
    hot_latency: Histogram,
    polled_latency: Histogram,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TallySnapshot {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Distinct events that a destination accepted.
    pub(super) delivered: u64,
    /// Deliveries of an event that had been accepted before.
    pub(super) duplicates: u64,
    /// Events that were accepted although their transaction was rolled back.
    #[serde(skip)]
    pub(super) invented: u64,
    /// Accepted events by source: directly after the commit, and claimed from the store.
    pub(super) hot: u64,
    pub(super) polled: u64,
    /// Time from COMMIT to the call of the destination, on the hot path.
    #[serde(rename = "latency_us")]
    pub(super) hot_latency: Option<Quantiles>,
    /// The same for events that were claimed from the store, including outages.
    #[serde(rename = "polled_latency_us")]
    pub(super) polled_latency: Option<Quantiles>,
}

impl Tally {
    pub(super) fn committed(&self) {
        self.lock().committed += 1;
    }

    pub(super) fn rolled_back(&self, id: &EventId) {
        self.lock().rolled_back.insert(id.clone());
    }

    /// Starts the clock of this event: its COMMIT succeeded, or a writer without hooks is about to send the COMMIT. A
    /// requested delay does not count as latency.
    pub(super) fn starts_waiting(&self, event: &Event) {
        let due = Instant::now() + event.delay().unwrap_or_default();
        self.lock().due.insert(event.id().clone(), due);
    }

    /// Stops the clock of this event: a destination is called, whatever the result.
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

    /// Counts an accepted event.
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

/// Starts the clock of every event after COMMIT and before the hot path.
pub(super) struct CommitClock(pub(super) std::sync::Arc<Tally>);

impl WriterHook for CommitClock {
    fn after_commit(&self, events: &[Event]) {
        for event in events {
            self.0.starts_waiting(event);
        }
    }
}
