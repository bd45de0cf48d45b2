//! Settlements: what a store returns for each of them.

use posthaste::store::{Lease, Settle, Settled, Settlement, Verdict};
use posthaste::{Status, StoreError};

use super::{SqlStore, StoreDialect};

/// How one database writes outcomes back.
pub(crate) trait SettleDialect: StoreDialect {
    /// Settles one event at least.
    fn settle(
        store: &SqlStore<Self>,
        settle: &Settle<'_>,
    ) -> impl Future<Output = Result<Vec<Settled>, StoreError>> + Send;
}

/// Delivered, and nothing else to write.
pub(crate) fn is_lean(settlement: &Settlement) -> bool {
    settlement.verdict == Verdict::Done && settlement.delivered.is_empty()
}

/// What a row has become.
#[derive(Clone, Copy)]
pub(crate) struct SettledRow {
    pub(crate) status: Status,
    pub(crate) attempts: u32,
}

impl SettledRow {
    pub(crate) const DONE: Self = Self { status: Status::Done, attempts: 0 };

    pub(crate) fn new(status: i64, attempts: i64) -> Self {
        Self {
            status: Status::from_code(status).unwrap_or(Status::New),
            attempts: u32::try_from(attempts.max(0)).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.status == Status::Done
    }
}

/// What became of each settlement, from the rows that were changed.
pub(crate) fn settled(settle: &Settle<'_>, changed: impl Fn(&Lease) -> Option<SettledRow>) -> Vec<Settled> {
    let settled = |settlement: &Settlement| match changed(&settlement.lease) {
        None => Settled::Stale,
        Some(row) => outcome(settlement, row),
    };
    settle.settlements.iter().map(settled).collect()
}

fn outcome(settlement: &Settlement, row: SettledRow) -> Settled {
    match (&settlement.verdict, row.status) {
        (_, Status::Done) => Settled::Done,
        (_, Status::Dead) => Settled::Dead { attempts: row.attempts },
        (Verdict::Deferred { delay } | Verdict::Unreachable { delay, .. }, _) => {
            Settled::Waiting { delay: *delay }
        }
        // The row may have been claimed since, so that its own time tells nothing.
        (Verdict::Failed { backoff, .. }, _) => {
            let delay = backoff.after(row.attempts).unwrap_or_default();
            Settled::Retry { attempts: row.attempts, delay }
        }
        (Verdict::Done | Verdict::Dead { .. }, _) => Settled::Stale,
    }
}
