//! Requests about rows that are held or parked: renew, release, park and unpark.

use std::time::Duration;

use super::{Lease, Owner};
use crate::time::Timestamp;

/// Extends leases.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renew<'a> {
    /// The owner that holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// How long they last from now on.
    pub lease: Duration,
    /// Whether the delivery of these events is about to begin. Raises `lost_leases`, so that the start counts if the
    /// owner dies from it. The engine sets this for suspects only.
    pub start: bool,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Renew<'a> {
    /// Extends these leases of this owner to `lease` from now.
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

/// Releases leases.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Release<'a> {
    /// The owner that holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Release<'a> {
    /// Releases these leases of this owner.
    pub fn new(owner: &'a Owner, leases: &'a [Lease]) -> Self {
        Self { owner, leases, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Parks held rows, because they have to wait for their route.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Park<'a> {
    /// The owner that holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// The reason, as it is kept in `parked`: a [`ParkReason`](crate::admin::ParkReason) as text.
    pub route: &'a str,
    /// How long until they are due by themselves.
    pub duration: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Park<'a> {
    /// Parks these rows of this owner for this route, for `duration` at most.
    pub fn new(owner: &'a Owner, leases: &'a [Lease], route: &'a str, duration: Duration) -> Self {
        Self { owner, leases, route, duration, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// Makes parked rows due.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unpark<'a> {
    /// The reason for which they are parked, as text.
    pub route: &'a str,
    /// The most rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl<'a> Unpark<'a> {
    /// Makes up to `limit` rows due that are parked for this route.
    pub fn new(route: &'a str, limit: usize) -> Self {
        Self { route, limit, now: None }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}
