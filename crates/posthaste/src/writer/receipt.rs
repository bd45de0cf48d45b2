//! Receipt: proof of an INSERT, handed to the hot queue after COMMIT.

use tokio::time::Instant;

use super::writer_core::WriterCore;
use crate::engine::{Proof, Written};
use crate::event::{Event, EventId};
use crate::store::Lease;

/// Proof that events were inserted, but not yet that they were committed.
///
/// After the commit, pass it to [`Outbox::committed`](crate::Outbox::committed). Dropping it is safe: its rows are
/// released to the poller a second later.
#[must_use = "pass it to `outbox.committed` after the commit; if it is dropped, the poller delivers later"]
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

    /// The id that was inserted, if there is exactly one.
    pub fn id(&self) -> Option<&EventId> {
        match self.written.as_slice() {
            [written] => Some(written.event.id()),
            _ => None,
        }
    }

    /// The ids that existed already and were not written.
    pub fn duplicates(&self) -> &[EventId] {
        &self.duplicates
    }

    /// Whether nothing was inserted: a hook suppressed the write, or every id existed already.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The `seq` of each row, for the lookup before COMMIT.
    pub fn seqs(&self) -> impl Iterator<Item = i64> {
        self.written.iter().map(|written| written.seq)
    }

    pub(super) fn after_write(&self) {
        if !self.core.parts.hooks.is_empty() {
            self.core.parts.hooks.after_write(&events(&self.written));
        }
    }

    /// The transaction committed with the rows for which `present` returns `true`. A savepoint undid the others.
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

    /// The transaction, or the savepoint around these events, was rolled back.
    pub(crate) fn rolled_back(mut self) {
        let undone = std::mem::take(&mut self.written);
        self.core.rolled_back(&undone);
    }
}

impl WriterCore {
    /// Reports that the caller has committed the transaction of this receipt. Does the same as
    /// [`Outbox::committed`](crate::Outbox::committed).
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
