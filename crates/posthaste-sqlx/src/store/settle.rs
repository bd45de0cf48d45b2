//! Settlements: the part that is the same for all databases.

use std::time::Duration;

use posthaste::store::{Backoff, Lease, Settle, Settled, Settlement, Verdict};
use posthaste::{Status, StoreError};

use super::{SqlStore, StoreDialect};

/// The SQL of one database for settlements.
pub(crate) trait SettleDialect: StoreDialect {
    /// Settles at least one event.
    fn settle(
        store: &SqlStore<Self>,
        settle: &Settle<'_>,
    ) -> impl Future<Output = Result<Vec<Settled>, StoreError>> + Send;
}

/// A verdict as the parameters of a statement.
#[derive(Default)]
pub(crate) struct VerdictParts<'a> {
    pub(crate) verdict: &'static str,
    pub(crate) error: Option<&'a str>,
    /// The delay until the event is due. `None` if the statement computes it from `backoff` and the attempts of the
    /// row.
    pub(crate) delay: Option<Duration>,
    pub(crate) park: Option<&'a str>,
    pub(crate) backoff: Option<&'a Backoff>,
    pub(crate) give_up_after: Option<Duration>,
}

impl<'a> VerdictParts<'a> {
    pub(crate) fn of(verdict: &'a Verdict) -> Self {
        match verdict {
            Verdict::Done => Self { verdict: "done", ..Self::default() },
            Verdict::Failed { error, backoff } => {
                Self { verdict: "failed", error: Some(error), backoff: Some(backoff), ..Self::default() }
            }
            Verdict::Deferred { delay } => {
                Self { verdict: "deferred", delay: Some(*delay), ..Self::default() }
            }
            Verdict::Dead { reason } => Self { verdict: "dead", error: Some(reason), ..Self::default() },
            Verdict::Unreachable { error, delay, park, give_up_after } => Self {
                verdict: "unreachable",
                error: Some(error),
                delay: Some(*delay),
                park: park.as_deref(),
                backoff: None,
                give_up_after: *give_up_after,
            },
        }
    }
}

/// True for a delivery without progress to record.
pub(crate) fn is_lean(settlement: &Settlement) -> bool {
    settlement.verdict == Verdict::Done && settlement.delivered.is_empty()
}

/// The state of a row after its settlement.
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

/// The result of each settlement, from the rows that were changed.
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
        // The row may have been claimed since, so its own time cannot be used.
        (Verdict::Failed { backoff, .. }, _) => {
            let delay = backoff.after(row.attempts).unwrap_or_default();
            Settled::Retry { attempts: row.attempts, delay }
        }
        (Verdict::Done | Verdict::Dead { .. }, _) => Settled::Stale,
    }
}
