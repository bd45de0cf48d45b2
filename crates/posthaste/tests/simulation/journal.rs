//! The journal: what really happened, recorded independently by the writers and the destinations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste::EventId;

/// Shared by everything in one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Ids whose transaction took effect.
    pub(crate) committed: BTreeSet<EventId>,
    /// Ids whose transaction, or savepoint, did not.
    pub(crate) rolled_back: BTreeSet<EventId>,
    /// Committed ids in the order of their commits.
    pub(crate) commits: Vec<EventId>,
    /// Ids in the order in which a destination first received them.
    pub(crate) arrivals: Vec<EventId>,
    /// What the destinations received of each id.
    pub(crate) records: BTreeMap<EventId, DeliveryRecord>,
    /// Bytes that are being delivered, by node and incarnation.
    pub(crate) carried: BTreeMap<(usize, u32), usize>,
    /// Ids that were committed in rows that the store lost. Their outcome is undefined.
    pub(crate) lost: BTreeSet<EventId>,
    /// Violations that are visible immediately, such as two copies running on one node.
    pub(crate) violations: Vec<String>,
    pub(crate) hooks: Hooks,
}

/// What the destinations received of one id.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRecord {
    /// Acknowledged deliveries, by destination.
    pub(crate) done: BTreeMap<&'static str, u32>,
    /// Outcomes that may spend an attempt: failures, panics, timeouts and refused connections.
    pub(crate) failures: u32,
    pub(crate) unreachable: u32,
    /// A destination returned a final failure.
    pub(crate) dead: bool,
    /// Running now, by node and incarnation.
    pub(crate) running: BTreeSet<(usize, u32, &'static str)>,
    pub(crate) starts: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) after_commit: BTreeMap<EventId, u32>,
    pub(crate) after_rollback: BTreeMap<EventId, u32>,
}

impl Journal {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn committed(&self, ids: &[EventId]) {
        let mut journal = self.lock();
        journal.committed.extend(ids.iter().cloned());
        journal.commits.extend(ids.iter().cloned());
    }

    pub(crate) fn rolled_back(&self, ids: &[EventId]) {
        self.lock().rolled_back.extend(ids.iter().cloned());
    }

    /// The store lost these rows.
    pub(crate) fn lost(&self, ids: &[EventId]) {
        let mut journal = self.lock();
        for id in ids {
            journal.committed.remove(id);
            journal.lost.insert(id.clone());
        }
    }

    pub(crate) fn violation(&self, text: String) {
        self.lock().violations.push(text);
    }
}
