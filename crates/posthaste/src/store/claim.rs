//! Claims: the request of the engine and the reply of the store.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Lease, LeaseToken, Owner};
use crate::event::Event;
use crate::time::Timestamp;

/// A request to lease due rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim<'a> {
    /// The owner that claims.
    pub owner: &'a Owner,
    /// The token of this claim.
    pub token: LeaseToken,
    /// How long the lease lasts.
    pub lease: Duration,
    /// The most rows. The engine uses only whole batches and powers of two, so a store that writes the number into its
    /// statement has few different statements.
    pub limit: usize,
    /// The most bytes of the payloads and headers of all rows together, as they are stored. The first row is claimed
    /// whatever its size.
    pub max_bytes: usize,
    /// Which of the due rows come first.
    pub order: ClaimOrder,
    /// Ignores rows that were inserted less than this ago.
    pub skip_recent: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Claim<'a> {
    /// Claims up to `limit` due rows of any size, under a new token.
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

    /// Sets how long the lease lasts.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets the most rows.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets the token. Default: a new one.
    #[must_use]
    pub fn with_token(self, token: LeaseToken) -> Self {
        Self { token, ..self }
    }

    /// Sets the most bytes of all rows together. Default: no limit.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets which of the due rows come first. Default: [`ClaimOrder::Due`].
    #[must_use]
    pub fn with_order(self, order: ClaimOrder) -> Self {
        Self { order, ..self }
    }

    /// Ignores rows that were inserted less than this ago. Default: zero.
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

/// Which due rows a claim takes first. Exhaustive, because a store must implement an order or refuse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimOrder {
    /// By due time, then by insertion. A failing row moves to the back.
    #[default]
    Due,
    /// By insertion only, and never past a leased row: while an engine works on an older event, no younger one is
    /// claimed. Rows that are not due are skipped. For strict mode. Such claims are serialised with each other, so that
    /// no claim skips rows that a concurrent one is taking. A store without insertion numbers returns
    /// [`StoreError::Unsupported`](crate::StoreError::Unsupported).
    Seq,
}

/// The result of a claim.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Claimed {
    /// The rows now leased to the owner.
    pub events: Vec<Leased>,
    /// Rows that are leased to the owner but cannot be decoded. The engine settles them as DEAD.
    pub malformed: Vec<Malformed>,
    /// Whether [`Claim::max_bytes`] ended the claim: the next row was due and did not fit.
    pub cut: bool,
    /// Routes that an operator has paused. May be up to a second old.
    pub paused: BTreeSet<String>,
    /// The reasons for which rows are parked, as they are in `parked`: the first
    /// [`MAX_PARKED_NAMES`](Self::MAX_PARKED_NAMES) of them. May be a second old, or older if the store is slow to list
    /// them, because no claim waits for the list.
    pub parked: BTreeSet<String>,
}

impl Claimed {
    /// The most names in [`parked`](Self::parked).
    pub const MAX_PARKED_NAMES: usize = 1000;
}

/// A leased event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leased {
    /// The lease under which it is held.
    pub lease: Lease,
    /// The event.
    pub event: Event,
    /// How many attempts have failed so far.
    pub attempts: u32,
    /// How often its handler deferred it so far.
    pub deferrals: u32,
    /// How many of its leases were lost, including what this claim found.
    pub lost_leases: u32,
    /// How often an operator has replayed it.
    pub replays: u32,
    /// How long ago it was inserted, by the store's clock.
    pub age: Duration,
    /// Destinations of a fan-out that have it already.
    pub progress: BTreeSet<String>,
}

impl Leased {
    /// A leased event that was just inserted: nothing has failed, and nothing is delivered.
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

/// A leased row that cannot be decoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Malformed {
    /// The lease under which it is held.
    pub lease: Lease,
    /// What is wrong with it, without its payload, and what to do.
    pub reason: String,
}

impl Malformed {
    /// The row of this lease cannot be decoded, for this reason.
    pub fn new(lease: Lease, reason: impl Into<String>) -> Self {
        Self { lease, reason: reason.into() }
    }
}
