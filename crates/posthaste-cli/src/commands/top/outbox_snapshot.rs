//! Snapshot of an outbox, from a store or from a relay.

use posthaste::Timestamp;
use posthaste::admin::{Backlog, DeadGroup, Filter, ParkReason, Stats};
use posthaste_admin::wire::{Row, Time};

/// Groups of DEAD events, and of pending ones, the largest first.
pub(super) const MAX_GROUPS: usize = 20;

/// DEAD events of a group that are listed, the oldest first.
pub(super) const MAX_LISTED_EVENTS: usize = 100;

/// One observation of one outbox of a source.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// The name of the outbox, if the source has several.
    pub(super) outbox: Option<String>,
    /// The snapshot, or an error if the source replied but this outbox could not be read.
    pub(super) snapshot: Result<OutboxSnapshot, String>,
}

/// The state of an outbox when it was observed.
#[derive(Clone, Debug)]
pub(super) struct OutboxSnapshot {
    pub(super) stats: Stats,
    pub(super) routes: Vec<RouteSnapshot>,
    pub(super) by_type: Backlog,
    pub(super) by_tenant: Backlog,
    pub(super) groups: Vec<DeadGroup>,
    /// Deliveries of a relay since it started; `None` for a store, which does not count them.
    pub(super) delivered: Option<u64>,
}

/// The state of a route in a snapshot, as far as the source knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteSnapshot {
    pub(super) name: String,
    pub(super) state: RouteState,
    /// Events that are parked for it; `None` if they were not counted.
    pub(super) parked: Option<u64>,
    /// Calls of its destination since the relay started; `None` for a store.
    pub(super) calls: Option<u64>,
}

/// Whether a route delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteState {
    Open,
    /// Paused by an operator.
    Paused,
    /// The destination is unreachable: the circuit breaker of the relay is open.
    Unreachable,
    /// Events are parked for it, for an unknown reason.
    Closed,
}

impl RouteState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused => "paused",
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
        }
    }
}

/// The two values of `parked` that events of a route can have.
pub(super) fn parked_names(route: &str) -> [String; 2] {
    ParkReason::of_route(route).map(|reason| reason.to_string())
}

/// Events that are parked for other routes: another engine closed them, or the routes no longer exist.
pub(super) fn other_routes(stats: &Stats, routes: &[RouteSnapshot]) -> Option<RouteSnapshot> {
    let known: u64 = routes.iter().filter_map(|route| route.parked).sum();
    let parked = stats.parked.saturating_sub(known);
    let name = if routes.is_empty() { "not named here" } else { "others" };
    (parked > 0).then(|| RouteSnapshot {
        name: format!("({name})"),
        state: RouteState::Closed,
        parked: Some(parked),
        calls: None,
    })
}

/// Identifies a group of DEAD events of one outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadGroupKey {
    pub(super) outbox: Option<String>,
    pub(super) aggregate_type: String,
    pub(super) event_type: String,
    pub(super) reason: String,
}

impl DeadGroupKey {
    pub(super) fn of(outbox: Option<String>, group: &DeadGroup) -> Self {
        Self {
            outbox,
            aggregate_type: group.aggregate_type.clone(),
            event_type: group.event_type.clone(),
            reason: group.reason.clone(),
        }
    }

    /// The filter that selects the group. The reason of a group is only a prefix of its errors, so the filter may match
    /// more events than the group has. That is why they are counted before a replay.
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::dead()
            .with_aggregate_type(self.aggregate_type.clone())
            .with_event_type(self.event_type.clone());
        filter.error_contains = Some(self.reason.clone()).filter(|reason| !reason.is_empty());
        filter
    }
}

/// A DEAD event, without its payload and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadEvent {
    pub(super) id: String,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: Option<String>,
    pub(super) tenant_id: Option<String>,
    pub(super) attempts: u32,
    pub(super) replays: u32,
    pub(super) died: Option<Timestamp>,
    pub(super) error: Option<String>,
}

impl From<Row> for DeadEvent {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            event_type: row.event_type,
            aggregate_type: row.aggregate_type,
            aggregate_id: row.aggregate_id,
            tenant_id: row.tenant_id,
            attempts: row.attempts,
            replays: row.replays,
            died: row.done_at.map(|Time(at)| at),
            error: row.last_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_parked_for_unknown_routes_are_counted() {
        let paused = |parked| RouteSnapshot {
            name: "mail".to_owned(),
            state: RouteState::Paused,
            parked,
            calls: None,
        };
        let mut stats = Stats::default();
        stats.parked = 7;
        let parked = |routes: &[RouteSnapshot]| other_routes(&stats, routes).and_then(|others| others.parked);
        assert_eq!(parked(&[paused(Some(5))]), Some(2));
        assert_eq!(parked(&[paused(Some(7))]), None);
        assert_eq!(parked(&[]), Some(7));
    }
}
