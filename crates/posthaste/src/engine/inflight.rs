//! Which events this engine holds, from enqueue to settlement, and until when.
//!
//! One table does two things: it keeps a hot and a cold copy of a row from both running, and it
//! tells the lease renewer which leases to renew. Two rows can have the same id, so a row is known by id
//! and number together. Ends of leases are judged on the monotonic clock,
//! from the instant before the statement that took them was sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event::EventId;
use crate::mutex::lock;
use crate::store::{Lease, LeaseToken};

/// What names a row: see [`Lease`].
type Key = (EventId, i64);

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    held: Mutex<HashMap<Key, Held>>,
    emptied: Notify,
    filled: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    token: LeaseToken,
    until: Instant,
}

impl InFlight {
    /// Notes an event; false, and nothing changes, if it is held already.
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

    /// An event was claimed: if it is held already the new lease replaces the old one, because the
    /// store knows only that one, and the copy that is here goes on under it. Answers whether.
    pub(crate) fn adopt(&self, lease: &Lease, until: Instant) -> bool {
        match self.lock().get_mut(&key(lease)) {
            None => false,
            Some(held) => {
                *held = Held { token: lease.token, until };
                true
            }
        }
    }

    /// The lease of an event that is about to be started; none, and forgotten, if it has lapsed.
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

    /// The lease that an event is held by now. It may have lapsed and been taken again by this
    /// engine while the event ran; the store knows only the new one.
    pub(crate) fn current(&self, lease: Lease) -> Lease {
        match self.lock().get(&key(&lease)) {
            Some(held) => Lease { token: held.token, ..lease },
            None => lease,
        }
    }

    /// Forgets events whose outcome is written. Answers the leases that replaced theirs meanwhile:
    /// nobody works on those.
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

    /// Forgets these rows, whatever became of them.
    pub(crate) fn forget<'a>(&self, rows: impl IntoIterator<Item = (&'a EventId, i64)>) {
        let mut held = self.lock();
        for (id, seq) in rows {
            held.remove(&(id.clone(), seq));
        }
        self.note_if_empty(&held);
    }

    /// Whether an event is still held, by the monotonic clock.
    pub(crate) fn holds(&self, lease: &Lease, now: Instant) -> bool {
        self.lock().get(&key(lease)).is_some_and(|held| held.until > now)
    }

    /// Every lease that ends within `margin` and has not ended.
    pub(crate) fn ending_within(&self, margin: Duration, now: Instant) -> Vec<Lease> {
        let soon = now + margin;
        let held = self.lock();
        held.iter()
            .filter(|(_, held)| held.until > now && held.until <= soon)
            .map(|((id, seq), held)| Lease::new(id.clone(), *seq, held.token))
            .collect()
    }

    /// These leases last until then. One that was replaced meanwhile is left alone.
    pub(crate) fn renewed<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>, until: Instant) {
        let mut held = self.lock();
        for lease in leases {
            if let Some(held) = held.get_mut(&key(lease)).filter(|held| held.token == lease.token) {
                held.until = until;
            }
        }
    }

    /// The store says that these are held by somebody else: they end now.
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
