//! The ledger of a transaction: the rows that it wrote, and whether they need a proof before COMMIT.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste::Receipt;
use posthaste::writer::Ledger;

/// The ledger of a transaction or savepoint.
#[derive(Debug, Default)]
pub(crate) struct TxLedger {
    ledger: Ledger,
    /// Whether a savepoint was open during a write. If not, no savepoint can roll a row back.
    is_doubtful: bool,
}

impl TxLedger {
    pub(crate) fn record(&mut self, receipt: Receipt, in_savepoint: bool) {
        self.ledger.record(receipt);
        self.is_doubtful |= in_savepoint;
    }

    /// Takes over the rows of a savepoint that was released.
    pub(crate) fn absorb(&mut self, savepoint: TxLedger) {
        self.ledger.absorb(savepoint.ledger);
        self.is_doubtful |= savepoint.is_doubtful;
    }

    /// The ledger, and the rows that certainly exist if the transaction commits; `None` if they need a proof.
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
