//! What an engine asks about rows that it holds, or that wait: renew, release, park and unpark.

use std::time::Duration;

use super::{Lease, Owner};
use crate::time::Timestamp;

/// Leases to renew.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renew<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// How long from now they shall last.
    pub lease: Duration,
    /// Their delivery is about to begin: raises `lost_leases`, so that it counts if the owner dies
    /// of it. The engine asks this for suspects only.
    pub start: bool,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Renew<'a> {
    /// These leases of this owner last for `lease` from now on.
    pub fn new(owner: &'a Owner, leases: &'a [Lease], lease: Duration) -> Self {
        Self { owner, leases, lease, start: false, now: None }
    }

    /// The delivery of these events is about to begin: see [`start`](Self::start).
    #[must_use]
    pub fn starting(self) -> Self {
        Self { start: true, ..self }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Leases to give back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Release<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Release<'a> {
    /// This owner gives these leases back.
    pub fn new(owner: &'a Owner, leases: &'a [Lease]) -> Self {
        Self { owner, leases, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Held rows that have to wait for their route.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Park<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// What they are parked for, as it is kept in `parked`: a [`ParkReason`](crate::admin::ParkReason) as text.
    pub route: &'a str,
    /// When they become due by themselves.
    pub duration: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Park<'a> {
    /// This owner's rows wait for this route, for `duration` at most.
    pub fn new(owner: &'a Owner, leases: &'a [Lease], route: &'a str, duration: Duration) -> Self {
        Self { owner, leases, route, duration, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Parked rows that need not wait any longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unpark<'a> {
    /// What they are parked for.
    pub route: &'a str,
    /// At most so many rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Unpark<'a> {
    /// Up to `limit` rows that wait for this route.
    pub fn new(route: &'a str, limit: usize) -> Self {
        Self { route, limit, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}
