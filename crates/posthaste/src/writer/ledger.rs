//! What a transaction has written so far, and what follows its end.

use std::collections::{HashMap, HashSet};

use super::receipt::Receipt;
use crate::engine::Proof;
use crate::event::EventId;

/// The receipts of one transaction or savepoint, kept by a driver's `Tx`.
///
/// Dropped unfinished it counts as rolled back, which is what every driver does with an
/// unfinished transaction.
#[derive(Debug, Default)]
pub struct Ledger {
    receipts: Vec<Receipt>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a write.
    pub fn record(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// A savepoint was released: what it wrote belongs to this transaction now.
    pub fn absorb(&mut self, mut savepoint: Ledger) {
        self.receipts.append(&mut savepoint.receipts);
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.receipts.is_empty()
    }

    /// The keys of all rows written, for the proof before COMMIT.
    pub fn seqs(&self) -> Vec<i64> {
        self.receipts.iter().flat_map(Receipt::seqs).collect()
    }

    /// Whose row each key is, for stores in which a row that was rolled back leaves its key to the
    /// next one: then the proof has to look at the id too.
    pub fn ids_by_seq(&self) -> HashMap<i64, EventId> {
        self.receipts.iter().flat_map(|receipt| receipt.seqs().zip(receipt.ids().cloned())).collect()
    }

    /// COMMIT is about to be sent: from here on a drop means that the outcome is unknown.
    pub fn committing(mut self) -> Committing {
        Committing { receipts: std::mem::take(&mut self.receipts) }
    }

    /// The transaction was rolled back.
    pub fn rolled_back(self) {}
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.receipts.drain(..).for_each(Receipt::rolled_back);
    }
}

/// A ledger whose COMMIT is on its way. Dropped, neither `after_commit` nor `after_rollback`
/// runs, and the poller finds out.
#[derive(Debug)]
#[must_use = "say what became of the COMMIT"]
pub struct Committing {
    receipts: Vec<Receipt>,
}

impl Committing {
    /// COMMIT succeeded, and right before it the transaction saw exactly these of its rows.
    ///
    /// A key that was written twice belongs to the last write: the one before it was undone.
    pub fn committed(self, present: &HashSet<i64>) {
        let writes = self.receipts.iter().enumerate();
        let last: HashMap<i64, usize> =
            writes.flat_map(|(write, receipt)| receipt.seqs().map(move |seq| (seq, write))).collect();
        for (write, receipt) in self.receipts.into_iter().enumerate() {
            receipt.committed(Proof::Proven, |seq| present.contains(&seq) && last.get(&seq) == Some(&write));
        }
    }

    /// The server rolled back.
    pub fn rolled_back(self) {
        self.receipts.into_iter().for_each(Receipt::rolled_back);
    }
}
