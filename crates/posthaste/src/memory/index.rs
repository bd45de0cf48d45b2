//! The indexes of the table.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::time::Timestamp;

/// The part of a row that decides in which indexes it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IndexPosition {
    /// NEW, RETRY or an unknown code.
    Pending { claimable_at: Timestamp, parked: Option<Arc<str>> },
    /// DONE since this time.
    Done(Timestamp),
    /// DEAD since this time.
    Dead(Timestamp),
    /// In no index.
    Nowhere,
}

/// Every index except the primary key. Claims read pending rows only, purges read terminal rows only.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Pending rows in the order of claims: by the time at which each can be claimed.
    pub(super) claimable: BTreeSet<(Timestamp, i64)>,
    /// Pending rows by insertion.
    pub(super) pending: BTreeSet<i64>,
    /// Parked rows of each route by insertion.
    pub(super) parked: HashMap<Arc<str>, BTreeSet<i64>>,
    /// DONE rows by `done_at`.
    pub(super) done: BTreeSet<(Timestamp, i64)>,
    /// DEAD rows by `done_at`.
    pub(super) dead: BTreeSet<(Timestamp, i64)>,
    /// DEAD rows by insertion.
    pub(super) dead_by_seq: BTreeSet<i64>,
}

impl Index {
    pub(super) fn add(&mut self, seq: i64, position: &IndexPosition) {
        match position {
            IndexPosition::Pending { claimable_at, parked } => {
                self.claimable.insert((*claimable_at, seq));
                self.pending.insert(seq);
                self.add_parked(seq, parked.as_ref());
            }
            IndexPosition::Done(at) => {
                self.done.insert((*at, seq));
            }
            IndexPosition::Dead(at) => {
                self.dead.insert((*at, seq));
                self.dead_by_seq.insert(seq);
            }
            IndexPosition::Nowhere => {}
        }
    }

    pub(super) fn remove(&mut self, seq: i64, position: &IndexPosition) {
        match position {
            IndexPosition::Pending { claimable_at, parked } => {
                self.claimable.remove(&(*claimable_at, seq));
                self.pending.remove(&seq);
                self.remove_parked(seq, parked.as_ref());
            }
            IndexPosition::Done(at) => {
                self.done.remove(&(*at, seq));
            }
            IndexPosition::Dead(at) => {
                self.dead.remove(&(*at, seq));
                self.dead_by_seq.remove(&seq);
            }
            IndexPosition::Nowhere => {}
        }
    }

    /// Moves a row from one position to another, touching only the indexes that differ.
    pub(super) fn shift(&mut self, seq: i64, from: &IndexPosition, to: &IndexPosition) {
        if from == to {
            return;
        }
        let (
            IndexPosition::Pending { claimable_at, parked },
            IndexPosition::Pending { claimable_at: new_claimable_at, parked: new_parked },
        ) = (from, to)
        else {
            self.remove(seq, from);
            self.add(seq, to);
            return;
        };
        if claimable_at != new_claimable_at {
            self.claimable.remove(&(*claimable_at, seq));
            self.claimable.insert((*new_claimable_at, seq));
        }
        if parked != new_parked {
            self.remove_parked(seq, parked.as_ref());
            self.add_parked(seq, new_parked.as_ref());
        }
    }

    fn add_parked(&mut self, seq: i64, route: Option<&Arc<str>>) {
        if let Some(route) = route {
            self.parked.entry(Arc::clone(route)).or_default().insert(seq);
        }
    }

    fn remove_parked(&mut self, seq: i64, route: Option<&Arc<str>>) {
        let Some(route) = route else { return };
        let Some(seqs) = self.parked.get_mut(route) else { return };
        seqs.remove(&seq);
        if seqs.is_empty() {
            self.parked.remove(route);
        }
    }
}
