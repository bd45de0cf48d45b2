//! Settling: outcomes on their way to the store, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use super::{Lease, Owner};
use crate::time::Timestamp;

/// Outcomes to write back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settle<'a> {
    /// Who settles.
    pub owner: &'a Owner,
    /// What happened, one entry per event.
    pub settlements: &'a [Settlement],
    /// What becomes of a delivered row.
    pub on_done: OnDone,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Settle<'a> {
    /// Outcomes of this owner; delivered rows are kept.
    pub fn new(owner: &'a Owner, settlements: &'a [Settlement]) -> Self {
        Self { owner, settlements, on_done: OnDone::Keep, now: None }
    }

    /// What becomes of delivered rows. Default: [`OnDone::Keep`].
    #[must_use]
    pub fn with_on_done(self, on_done: OnDone) -> Self {
        Self { on_done, ..self }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// One event's outcome on its way to the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settlement {
    /// The lease under which the event was held.
    pub lease: Lease,
    /// What to do with the row.
    pub verdict: Verdict,
    /// Destinations of a fan-out to add to `progress`, whatever the verdict.
    pub delivered: Vec<String>,
}

impl Settlement {
    /// This verdict on the row of this lease.
    pub fn new(lease: Lease, verdict: Verdict) -> Self {
        Self { lease, verdict, delivered: Vec::new() }
    }

    /// Sets the destinations of a fan-out that have the event now. Default: none.
    #[must_use]
    pub fn with_delivered(self, delivered: Vec<String>) -> Self {
        Self { delivered, ..self }
    }
}

/// What the store does with a row after an attempt to deliver it. Exhaustive, because a store that ignored a verdict
/// would lose it.
///
/// After [`Failed`](Self::Failed) and [`Deferred`](Self::Deferred), `lost_leases` of a row that stays pending is set to
/// zero: the delivery ran and its owner survived. After [`Unreachable`](Self::Unreachable) the event did not reach its
/// destination, so only a counted start ([`Renew::start`](super::Renew::start)) is taken back: a number above
/// [`SUSPECT_LOST_LEASES`](super::SUSPECT_LOST_LEASES) is reduced by one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Delivered: DONE, `done_at` is set, `last_error` is cleared.
    Done,
    /// A failed attempt: `attempts` grows by one. At `backoff.max_attempts` the row is DEAD, otherwise RETRY and due
    /// after the delay for that count.
    Failed {
        /// What went wrong, at most [`LAST_ERROR_MAX_LENGTH`](crate::LAST_ERROR_MAX_LENGTH) characters.
        error: String,
        /// The delays from which the store picks.
        backoff: Backoff,
    },
    /// Not now: NEW and due after the delay. `attempts` stays, `deferrals` grows by one.
    Deferred {
        /// How long to wait.
        delay: Duration,
    },
    /// Final: DEAD, `done_at` is set. `attempts` stays.
    Dead {
        /// Why, kept as `last_error`.
        reason: String,
    },
    /// The destination could not be reached: status and `attempts` stay, due after the delay.
    Unreachable {
        /// What went wrong, kept as `last_error`.
        error: String,
        /// How long to wait.
        delay: Duration,
        /// The reason for which to park the row, so that `unpark` can bring it back earlier. `None` if it is not
        /// parked.
        park: Option<String>,
        /// If the row has been put off in this way for this long, it is DEAD instead. The time counts, by the store's
        /// clock, from the first such settlement since the last one of another kind; releases and claims do not
        /// interrupt it. [`park`](super::Store::park) and [`unpark`](super::Store::unpark) end it, because nothing is
        /// tried while a route is closed; it starts again when the route opens. If the settlements since the first one
        /// had different limits, the longest counts: an event that waits for a busy destination is not given up because
        /// a node without a route for it would wait for a shorter time. `None`: no limit.
        give_up_after: Option<Duration>,
    },
}

impl Verdict {
    /// Replaces the text of an error by one that every store can keep.
    pub(crate) fn forget_text(&mut self) {
        const REFUSED_TEXT: &str = "the store refused the text of this error";
        match self {
            Self::Done | Self::Deferred { .. } => {}
            Self::Failed { error: text, .. }
            | Self::Dead { reason: text }
            | Self::Unreachable { error: text, .. } => REFUSED_TEXT.clone_into(text),
        }
    }
}

/// The number of failed attempts that an event has, and how long to wait after each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The attempt at which the row is DEAD. At least one.
    pub max_attempts: u32,
    /// The delays after the first, second, … failed attempt, with jitter applied. The last one applies to all further
    /// attempts. At most 64.
    pub delays: Arc<[Duration]>,
}

impl Backoff {
    /// The longest list of delays.
    pub const MAX_DELAYS: usize = 64;

    /// At most this many attempts, with these delays between them.
    pub fn new(max_attempts: u32, delays: impl Into<Arc<[Duration]>>) -> Self {
        Self { max_attempts, delays: delays.into() }
    }

    /// What follows failed attempt number `count` (1, 2, …): a delay, or `None` for DEAD. Every store implements this
    /// rule.
    ///
    /// ```
    /// use std::time::Duration;
    /// use posthaste::store::Backoff;
    ///
    /// let backoff = Backoff::new(3, [Duration::from_secs(1)]);
    /// assert_eq!(backoff.after(2), Some(Duration::from_secs(1)));
    /// assert_eq!(backoff.after(3), None);
    /// ```
    pub fn after(&self, count: u32) -> Option<Duration> {
        if count >= self.max_attempts {
            return None;
        }
        let index = (count.max(1) as usize - 1).min(self.delays.len().saturating_sub(1));
        Some(self.delays.get(index).copied().unwrap_or_default())
    }
}

/// The result of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The row is DONE (kept, deleted or archived).
    Done,
    /// The row is RETRY.
    Retry {
        /// Failed attempts, this one included.
        attempts: u32,
        /// The delay that the store picked.
        delay: Duration,
    },
    /// The row waits, and no attempt was spent.
    Waiting {
        /// The delay that was requested.
        delay: Duration,
    },
    /// The row is DEAD.
    Dead {
        /// Failed attempts.
        attempts: u32,
    },
    /// Nothing changed: the lease was lost, or the row is terminal or gone.
    Stale,
    /// The shard of the store with this row cannot be reached, but other shards can. The caller tries again later. If
    /// no shard can be reached, the whole call is an error.
    Unknown,
}

/// What happens to a row when it is delivered. Exhaustive, because a store must implement every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
pub enum OnDone {
    /// Kept as DONE until the purger removes it. The default.
    #[default]
    Keep,
    /// Deleted immediately: the fastest, and leaves no trace.
    Delete,
    /// Moved to the archive immediately.
    Archive,
}
