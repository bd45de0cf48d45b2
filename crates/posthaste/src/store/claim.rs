//! Claiming: what the engine asks for, and what the store returns.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Lease, LeaseToken, Owner};
use crate::event::Event;
use crate::time::Timestamp;

/// What to claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim<'a> {
    /// Who claims.
    pub owner: &'a Owner,
    /// The token of this claim.
    pub token: LeaseToken,
    /// How long the lease lasts.
    pub lease: Duration,
    /// At most so many rows. The engine asks for whole batches or powers of two, so that a store may
    /// write the number into its statement.
    pub limit: usize,
    /// The payloads and headers of all rows together, as they are stored, have at most so many
    /// bytes. The first row is claimed whatever its size.
    pub max_bytes: usize,
    /// Which of the due rows come first.
    pub order: ClaimOrder,
    /// Rows inserted less than this ago are left out.
    pub skip_recent: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Claim<'a> {
    /// Up to `limit` rows that are due, of any size, under a new token.
    pub fn new(owner: &'a Owner, lease: Duration, limit: usize) -> Self {
        Self {
            owner,
            token: LeaseToken::random(),
            lease,
            limit,
            max_bytes: usize::MAX,
            order: ClaimOrder::default(),
            skip_recent: Duration::ZERO,
            now: None,
        }
    }

    /// How long the lease lasts.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// At most so many rows.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Claims under this token. Default: a new one.
    #[must_use]
    pub fn with_token(self, token: LeaseToken) -> Self {
        Self { token, ..self }
    }

    /// Claims rows of at most so many bytes together. Default: no bound.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Which of the due rows come first. Default: [`ClaimOrder::Due`].
    #[must_use]
    pub fn with_order(self, order: ClaimOrder) -> Self {
        Self { order, ..self }
    }

    /// Leaves out rows inserted less than this ago. Default: zero.
    #[must_use]
    pub fn with_skip_recent(self, skip_recent: Duration) -> Self {
        Self { skip_recent, ..self }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Which due rows a claim takes first. Exhaustive, because a store must do as it is asked or refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimOrder {
    /// By due time, then insertion: a failing row moves to the back.
    #[default]
    Due,
    /// By insertion alone, and never past a row that is on lease: while somebody works on an
    /// older event, nothing younger is claimed. Rows that wait for their time are stepped over.
    /// For strict mode. Such claims are serialised with each other, so that two at once do not
    /// step over what the other is taking; a store without insertion numbers answers
    /// [`StoreError::Unsupported`](crate::StoreError::Unsupported).
    Seq,
}

/// What a claim found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Claimed {
    /// The rows now leased to the owner.
    pub events: Vec<Leased>,
    /// Rows leased to the owner that no engine can read; they have to be settled as dead.
    pub malformed: Vec<Malformed>,
    /// [`Claim::max_bytes`] ended the claim: the next row was due and did not fit.
    pub cut: bool,
    /// Routes that an operator has paused. May be up to a second old.
    pub paused: BTreeSet<String>,
    /// What rows are parked for, as it stands in `parked`: the first
    /// [`MAX_PARKED_NAMES`](Self::MAX_PARKED_NAMES) names. May be a second old, and more where the store is slow to
    /// say it: no claim waits for it.
    pub parked: BTreeSet<String>,
}

impl Claimed {
    /// The most names in [`parked`](Self::parked).
    pub const MAX_PARKED_NAMES: usize = 1000;
}

/// An event on lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leased {
    /// The lease it is held by.
    pub lease: Lease,
    /// The event.
    pub event: Event,
    /// How many attempts have failed so far.
    pub attempts: u32,
    /// How often its handler asked for more time so far.
    pub deferrals: u32,
    /// How often its owner died, this claim's finding included.
    pub lost_leases: u32,
    /// How often an operator has replayed it.
    pub replays: u32,
    /// How long ago it was inserted, by the store's clock.
    pub age: Duration,
    /// The destinations of a fan-out that have it already.
    pub progress: BTreeSet<String>,
}

impl Leased {
    /// An event on lease that was just inserted: nothing failed yet and nothing is delivered.
    pub fn new(lease: Lease, event: Event) -> Self {
        Self {
            lease,
            event,
            attempts: 0,
            deferrals: 0,
            lost_leases: 0,
            replays: 0,
            age: Duration::ZERO,
            progress: BTreeSet::new(),
        }
    }
}

/// A row on lease that cannot be decoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Malformed {
    /// The lease it is held by.
    pub lease: Lease,
    /// What is wrong with it, without its payload.
    pub reason: String,
}

impl Malformed {
    /// The row of this lease cannot be decoded, for this reason.
    pub fn new(lease: Lease, reason: impl Into<String>) -> Self {
        Self { lease, reason: reason.into() }
    }
}
