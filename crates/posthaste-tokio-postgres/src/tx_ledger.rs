//! The ledger of a transaction: what it has written, and whether its rows are beyond doubt.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste::Receipt;
use posthaste::writer::Ledger;

/// The ledger of a transaction or savepoint.
#[derive(Debug, Default)]
pub(crate) struct TxLedger {
    ledger: Ledger,
    /// Whether a savepoint was open during a write. Without one, no savepoint can take a row back.
    is_doubtful: bool,
}

impl TxLedger {
    pub(crate) fn record(&mut self, receipt: Receipt, in_savepoint: bool) {
        self.ledger.record(receipt);
        self.is_doubtful |= in_savepoint;
    }

    /// A savepoint was released: what it wrote belongs to this transaction now.
    pub(crate) fn absorb(&mut self, savepoint: TxLedger) {
        self.ledger.absorb(savepoint.ledger);
        self.is_doubtful |= savepoint.is_doubtful;
    }

    /// The ledger, and the rows that are there for certain if the transaction commits; none if somebody has
    /// to look.
    pub(crate) fn into_parts(self) -> (Ledger, Option<HashSet<i64>>) {
        let certain = (!self.is_doubtful).then(|| self.ledger.seqs().into_iter().collect());
        (self.ledger, certain)
    }
}

pub(crate) fn lock(written: &Mutex<TxLedger>) -> MutexGuard<'_, TxLedger> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn unlock(written: Mutex<TxLedger>) -> TxLedger {
    written.into_inner().unwrap_or_else(PoisonError::into_inner)
}
