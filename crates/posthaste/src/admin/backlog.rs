//! What waits, by type or by tenant: a summary that stays small, however much there is.

use std::cmp::Reverse;
use std::time::Duration;

use super::PageRequest;

/// By what pending events are grouped. Exhaustive, because a store must group as it is asked.
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
    /// Whether these are all groups, and every pending row was counted.
    pub complete: bool,
}

impl Backlog {
    /// These groups, and whether they are all.
    pub fn new(groups: Vec<BacklogGroup>, complete: bool) -> Self {
        Self { groups, complete }
    }

    /// A store looks at so many pending rows at most, the oldest ones.
    pub const MAX_ROWS: usize = 20_000;

    /// The largest `limit` groups of these, of which a store may have left out small ones as long as it
    /// answers one more than the limit. `more` says that there are rows that were not looked at.
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
    /// `Order:OrderPlaced`, or the tenant; none for events without a tenant.
    pub key: Option<String>,
    /// How many there are among the rows that were looked at.
    pub count: u64,
    /// The age of the oldest of them, by its insertion.
    pub oldest: Option<Duration>,
}

impl BacklogGroup {
    /// A group of so many events.
    pub fn new(key: Option<String>, count: u64, oldest: Option<Duration>) -> Self {
        Self { key, count, oldest }
    }
}
