//! The proof of a write, and food for the hot queue.

use tokio::time::Instant;

use super::writer_core::WriterCore;
use crate::engine::{Proof, Written};
use crate::event::{Event, EventId};
use crate::store::Lease;

/// Proof that events were inserted; not yet that they were committed.
///
/// After the commit give it to [`Outbox::committed`](crate::Outbox::committed). Dropping it is
/// safe: its rows go back to the poller a second later.
#[must_use = "give it to `outbox.committed` after the commit; dropped, the poller delivers later"]
#[derive(Debug)]
pub struct Receipt {
    core: WriterCore,
    written: Vec<Written>,
    duplicates: Vec<EventId>,
    asked_at: Instant,
}

impl Receipt {
    pub(super) fn new(
        core: WriterCore,
        written: Vec<Written>,
        duplicates: Vec<EventId>,
        asked_at: Instant,
    ) -> Self {
        Self { core, written, duplicates, asked_at }
    }

    /// The ids that were inserted.
    pub fn ids(&self) -> impl Iterator<Item = &EventId> {
        self.written.iter().map(|written| written.event.id())
    }

    /// The id that was inserted, where there is exactly one.
    pub fn id(&self) -> Option<&EventId> {
        match self.written.as_slice() {
            [written] => Some(written.event.id()),
            _ => None,
        }
    }

    /// The ids that existed already, so that nothing was written for them.
    pub fn duplicates(&self) -> &[EventId] {
        &self.duplicates
    }

    /// Whether nothing was inserted: suppressed by a hook, or all duplicates.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The rows' own keys, for the proof before COMMIT.
    pub fn seqs(&self) -> impl Iterator<Item = i64> {
        self.written.iter().map(|written| written.seq)
    }

    pub(super) fn after_write(&self) {
        if !self.core.parts.hooks.is_empty() {
            self.core.parts.hooks.after_write(&events(&self.written));
        }
    }

    /// The transaction committed with those rows that `present` knows; the others were undone by
    /// a savepoint.
    pub(crate) fn committed(mut self, proof: Proof, present: impl Fn(i64) -> bool) {
        let (kept, undone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.written).into_iter().partition(|written| present(written.seq));
        self.core.rolled_back(&undone);
        if !self.core.parts.hooks.is_empty() {
            self.core.parts.hooks.after_commit(&events(&kept));
        }
        let is_free = |written: &Written| written.lease.is_none() && written.delay.is_none();
        if let (Some(notifier), true) = (&self.core.notifier, kept.iter().any(is_free)) {
            notifier.notify();
        }
        if let Some(hot_path) = &self.core.parts.hot_path {
            hot_path.committed(kept, self.asked_at, proof);
        }
    }

    /// The transaction, or the savepoint around these events, was rolled back: the rows never were.
    pub(crate) fn rolled_back(mut self) {
        let undone = std::mem::take(&mut self.written);
        self.core.rolled_back(&undone);
    }
}

impl WriterCore {
    /// The transaction of this receipt was committed by its caller. See
    /// [`Outbox::committed`](crate::Outbox::committed), which does the same.
    pub fn committed(&self, receipt: Receipt) {
        receipt.committed(Proof::CallersWord, |_| true);
    }

    fn rolled_back(&self, undone: &[Written]) {
        if !self.parts.hooks.is_empty() {
            self.parts.hooks.after_rollback(&events(undone));
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let leases: Vec<Lease> = self.written.drain(..).filter_map(|written| written.lease).collect();
        if let (Some(hot_path), false) = (&self.core.parts.hot_path, leases.is_empty()) {
            hot_path.abandoned(leases);
        }
    }
}

fn events(written: &[Written]) -> Vec<Event> {
    written.iter().map(|written| written.event.clone()).collect()
}
