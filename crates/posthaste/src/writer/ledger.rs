//! The ledger of a transaction: its receipts, and what happens to them when it ends.

use std::collections::{HashMap, HashSet};

use super::receipt::Receipt;
use crate::engine::Proof;
use crate::event::EventId;

/// The receipts of one transaction or savepoint. A driver's `Tx` keeps one.
///
/// Dropping it unfinished counts as a rollback, because every driver rolls back an unfinished transaction.
#[derive(Debug, Default)]
pub struct Ledger {
    receipts: Vec<Receipt>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the receipt of a write.
    pub fn record(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// A savepoint was released: its writes belong to this transaction now.
    pub fn absorb(&mut self, mut savepoint: Ledger) {
        self.receipts.append(&mut savepoint.receipts);
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.receipts.is_empty()
    }

    /// The `seq` of every row written, for the lookup before COMMIT.
    pub fn seqs(&self) -> Vec<i64> {
        self.receipts.iter().flat_map(Receipt::seqs).collect()
    }

    /// The event id of each `seq`. Needed where a row that was rolled back leaves its number to the next row: the
    /// lookup before COMMIT has to compare the id too.
    pub fn ids_by_seq(&self) -> HashMap<i64, EventId> {
        self.receipts.iter().flat_map(|receipt| receipt.seqs().zip(receipt.ids().cloned())).collect()
    }

    /// COMMIT is about to be sent. From here on a drop means that the outcome is unknown.
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

/// A ledger whose COMMIT is under way. If it is dropped, neither `after_commit` nor `after_rollback` runs, and the
/// poller finds the rows if they were committed.
#[derive(Debug)]
#[must_use = "report the result of the COMMIT"]
pub struct Committing {
    receipts: Vec<Receipt>,
}

impl Committing {
    /// COMMIT succeeded, and right before it the transaction saw exactly these of its rows.
    ///
    /// A `seq` that was written twice belongs to the last write, because the one before was undone.
    pub fn committed(self, present: &HashSet<i64>) {
        let writes = self.receipts.iter().enumerate();
        let last: HashMap<i64, usize> =
            writes.flat_map(|(write, receipt)| receipt.seqs().map(move |seq| (seq, write))).collect();
        for (write, receipt) in self.receipts.into_iter().enumerate() {
            receipt.committed(Proof::Proven, |seq| present.contains(&seq) && last.get(&seq) == Some(&write));
        }
    }

    /// The server rolled the transaction back.
    pub fn rolled_back(self) {
        self.receipts.into_iter().for_each(Receipt::rolled_back);
    }
}
