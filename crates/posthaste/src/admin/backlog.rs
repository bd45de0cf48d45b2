//! The backlog: pending events by type or by tenant, in a summary of bounded size.

use std::cmp::Reverse;
use std::time::Duration;

use super::PageRequest;

/// How pending events are grouped. Exhaustive, because a store must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BacklogBy {
    /// By aggregate type and event type.
    Type,
    /// By tenant.
    Tenant,
}

/// Pending events in groups.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Backlog {
    /// The groups, largest first.
    pub groups: Vec<BacklogGroup>,
    /// Whether these are all groups and every pending row was counted.
    pub complete: bool,
}

impl Backlog {
    /// These groups, and whether they are all.
    pub fn new(groups: Vec<BacklogGroup>, complete: bool) -> Self {
        Self { groups, complete }
    }

    /// The most pending rows that a store reads, oldest first.
    pub const MAX_ROWS: usize = 20_000;

    /// The largest `limit` of these groups. A store may leave out small groups if it passes one more than the limit.
    /// `more`: there are rows that were not read.
    pub fn largest(mut groups: Vec<BacklogGroup>, limit: usize, more: bool) -> Self {
        let limit = limit.min(PageRequest::MAX_LIMIT);
        let complete = !more && groups.len() <= limit;
        groups.sort_by(|a, b| Reverse(a.count).cmp(&Reverse(b.count)).then_with(|| a.key.cmp(&b.key)));
        groups.truncate(limit);
        Self { groups, complete }
    }
}

/// Pending events of one type or of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BacklogGroup {
    /// `Order:OrderPlaced`, or the tenant; `None` for events without a tenant.
    pub key: Option<String>,
    /// The number of its events among the rows that were read.
    pub count: u64,
    /// The age of the oldest of them, by its insertion.
    pub oldest: Option<Duration>,
}

impl BacklogGroup {
    /// A group of this many events.
    pub fn new(key: Option<String>, count: u64, oldest: Option<Duration>) -> Self {
        Self { key, count, oldest }
    }
}
