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
    /// The lease the event was held by.
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

    /// The destinations of a fan-out that have the event now. Default: none.
    #[must_use]
    pub fn with_delivered(self, delivered: Vec<String>) -> Self {
        Self { delivered, ..self }
    }
}

/// What to do with a row after an attempt to deliver it. Exhaustive: a store that ignored a verdict would lose it.
///
/// After [`Failed`](Self::Failed) and [`Deferred`](Self::Deferred) a row that stays pending has its `lost_leases`
/// set to zero: it was delivered, and its owner lived to say so. After [`Unreachable`](Self::Unreachable) it
/// was not delivered, so only a start that was counted ([`Renew::start`](super::Renew::start)) is taken back: a number above
/// [`SUSPECT_LOST_LEASES`](super::SUSPECT_LOST_LEASES) falls by one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Delivered: DONE, `done_at` set, `last_error` cleared.
    Done,
    /// A failed attempt: `attempts` grows by one; at `backoff.max_attempts` the row is DEAD,
    /// otherwise RETRY and due after the delay for that count.
    Failed {
        /// What went wrong, at most [`LAST_ERROR_MAX_LENGTH`](crate::LAST_ERROR_MAX_LENGTH) characters.
        error: String,
        /// From which the store picks.
        backoff: Backoff,
    },
    /// Not now: NEW and due after the delay; attempts stay, `deferrals` grows by one.
    Deferred {
        /// How long to wait.
        delay: Duration,
    },
    /// Never: DEAD, `done_at` set; attempts stay.
    Dead {
        /// Why, kept as `last_error`.
        reason: String,
    },
    /// The destination was not there: the status stays, attempts stay, due after the delay.
    Unreachable {
        /// What went wrong, kept as `last_error`.
        error: String,
        /// How long to wait.
        delay: Duration,
        /// The route to park the row for, so that `unpark` brings it back earlier.
        park: Option<String>,
        /// If it has been put off in this way for so long, the row is DEAD instead. The time
        /// counts, by the store's clock, from the first such settlement that no other verdict
        /// followed; releases and claims do not interrupt it. [`park`](super::Store::park) and
        /// [`unpark`](super::Store::unpark) end it: while a route is closed nothing is tried, and when it opens
        /// the time starts again. Of different limits since that first settlement the longest counts: an
        /// event that waits for a busy destination is not given up because one node, which has no route for
        /// it, would wait for a shorter time. None: it may go on for ever.
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

/// How many failed attempts an event has, and how long to wait after each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The attempt at which the row dies. At least one.
    pub max_attempts: u32,
    /// The delay after the first, second, … failed attempt, jitter applied; the last one serves
    /// all further attempts. At most 64.
    pub delays: Arc<[Duration]>,
}

impl Backoff {
    /// The longest list of delays.
    pub const MAX_DELAYS: usize = 64;

    /// At most so many attempts, with these delays between them.
    pub fn new(max_attempts: u32, delays: impl Into<Arc<[Duration]>>) -> Self {
        Self { max_attempts, delays: delays.into() }
    }

    /// What follows the failed attempt number `count` (1, 2, …): a delay, or none for DEAD. This
    /// is the rule that every store implements.
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

/// What became of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The row is DONE (kept, deleted or archived).
    Done,
    /// The row is RETRY.
    Retry {
        /// Failed attempts, this one included.
        attempts: u32,
        /// The delay the store picked.
        delay: Duration,
    },
    /// The row waits, with no attempt spent.
    Waiting {
        /// The delay that was asked for.
        delay: Duration,
    },
    /// The row is DEAD.
    Dead {
        /// Failed attempts.
        attempts: u32,
    },
    /// Nothing changed: the lease was lost, or the row is terminal or gone.
    Stale,
    /// The part of the store that has the row cannot be reached, and others can: the caller tries again later.
    /// Where no part can be reached the whole call is an error.
    Unknown,
}

/// What becomes of a row when it is delivered. Exhaustive, because a store must do as it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
pub enum OnDone {
    /// Kept as DONE until the purger takes it. The default.
    #[default]
    Keep,
    /// Deleted at once: the fastest, without a trace.
    Delete,
    /// Moved to the archive at once.
    Archive,
}
