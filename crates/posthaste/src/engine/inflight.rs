//! The table of events that this engine holds, from enqueue to settlement, with the end of each lease.
//!
//! It serves two purposes: a hot and a cold copy of the same row never run at the same time, and the lease renewer
//! knows which leases to extend. Two rows can have the same id, so a row is identified by id and `seq` together. The
//! ends of leases are on the monotonic clock and count from the instant before the statement that took the lease was
//! sent, so they are never later than the store's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event::EventId;
use crate::mutex::lock;
use crate::store::{Lease, LeaseToken};

/// Identifies a row: see [`Lease`].
type Key = (EventId, i64);

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Every held event. Written by the hot path, the poller, the workers, the lease renewer and the settler.
    held: Mutex<HashMap<Key, Held>>,
    /// Wakes all that wait for the table to become empty.
    emptied: Notify,
    /// Wakes the lease renewer when the first event enters.
    filled: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// The token under which the store knows the lease now.
    token: LeaseToken,
    /// When the lease lapses. An event is not started after this instant.
    until: Instant,
}

impl InFlight {
    /// Adds an event. Returns `false` and changes nothing if it is held already.
    pub(crate) fn admit(&self, lease: &Lease, until: Instant) -> bool {
        let mut all = self.lock();
        let first = all.is_empty();
        match all.entry(key(lease)) {
            Entry::Occupied(_) => return false,
            Entry::Vacant(entry) => entry.insert(Held { token: lease.token, until }),
        };
        if first {
            self.filled.notify_one();
        }
        true
    }

    /// An event was claimed. If it is held already, its new lease replaces the old one, because the store knows only
    /// the new one, and the copy in this process continues under it. Returns whether it was held.
    pub(crate) fn adopt(&self, lease: &Lease, until: Instant) -> bool {
        match self.lock().get_mut(&key(lease)) {
            None => false,
            Some(held) => {
                *held = Held { token: lease.token, until };
                true
            }
        }
    }

    /// The lease of an event that is about to be started. `None` if the event is not held, or if its lease has lapsed;
    /// a lapsed event is forgotten.
    pub(crate) fn start(&self, id: &EventId, seq: i64, now: Instant) -> Option<Lease> {
        let mut held = self.lock();
        let key = (id.clone(), seq);
        let entry = *held.get(&key)?;
        if entry.until > now {
            return Some(Lease::new(key.0, seq, entry.token));
        }
        held.remove(&key);
        self.note_if_empty(&held);
        None
    }

    /// The lease under which an event is held now. It may have lapsed and been claimed again by this engine while the
    /// event ran; the store knows only the new one.
    pub(crate) fn current(&self, lease: Lease) -> Lease {
        match self.lock().get(&key(&lease)) {
            Some(held) => Lease { token: held.token, ..lease },
            None => lease,
        }
    }

    /// Forgets events whose settlement is written. Returns the leases that replaced theirs in the meantime: no worker
    /// has those, so the caller releases them.
    pub(crate) fn finish<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) -> Vec<Lease> {
        let mut held = self.lock();
        let mut newer = Vec::new();
        for lease in leases {
            if let Some(removed) = held.remove(&key(lease)).filter(|removed| removed.token != lease.token) {
                newer.push(Lease { token: removed.token, ..lease.clone() });
            }
        }
        self.note_if_empty(&held);
        newer
    }

    /// Forgets these rows, whatever their outcome.
    pub(crate) fn forget<'a>(&self, rows: impl IntoIterator<Item = (&'a EventId, i64)>) {
        let mut held = self.lock();
        for (id, seq) in rows {
            held.remove(&(id.clone(), seq));
        }
        self.note_if_empty(&held);
    }

    /// Whether an event is still held at `now`.
    pub(crate) fn holds(&self, lease: &Lease, now: Instant) -> bool {
        self.lock().get(&key(lease)).is_some_and(|held| held.until > now)
    }

    /// Every lease that has not ended and ends within `margin`.
    pub(crate) fn ending_within(&self, margin: Duration, now: Instant) -> Vec<Lease> {
        let soon = now + margin;
        let held = self.lock();
        held.iter()
            .filter(|(_, held)| held.until > now && held.until <= soon)
            .map(|((id, seq), held)| Lease::new(id.clone(), *seq, held.token))
            .collect()
    }

    /// These leases now end at `until`. A lease that was replaced in the meantime is not changed.
    pub(crate) fn renewed<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>, until: Instant) {
        let mut held = self.lock();
        for lease in leases {
            if let Some(held) = held.get_mut(&key(lease)).filter(|held| held.token == lease.token) {
                held.until = until;
            }
        }
    }

    /// This engine no longer holds these leases: they end now.
    pub(crate) fn lost<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>, now: Instant) {
        self.renewed(leases, now);
    }

    /// How many events are held.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Waits until something is held.
    pub(crate) async fn occupied(&self) {
        while self.lock().is_empty() {
            self.filled.notified().await;
        }
    }

    /// Waits until nothing is held.
    pub(crate) async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn note_if_empty(&self, held: &HashMap<Key, Held>) {
        if held.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        lock(&self.held)
    }
}

fn key(lease: &Lease) -> Key {
    (lease.id.clone(), lease.seq)
}
