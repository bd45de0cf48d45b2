//! What looks wrong with an outbox, and what to do about it.

use std::time::Duration;

use super::{Stats, Tolerance};
use crate::route::{NO_ROUTE, parked_for};
use crate::store::MAX_LOST_LEASES;

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What it is about, in a word that stays the same from release to release, such as `paused-route`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding that hurts now.
    pub fn problem(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Problem, what: what.into(), advice: advice.into() }
    }

    /// A finding that will hurt some day.
    pub fn warning(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, what: what.into(), advice: advice.into() }
    }

    /// A finding that is worth knowing.
    pub fn note(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Note, what: what.into(), advice: advice.into() }
    }

    /// The oldest pending event has waited for this long; none if that is borne.
    pub fn late(age: Duration, tolerance: &Tolerance) -> Option<Self> {
        (age >= tolerance.late).then(|| {
            Self::problem(
                "late",
                format!("the oldest pending event has waited for {}", for_so_long(age)),
                "see whether an engine runs, and which destination is slow or closed",
            )
        })
    }

    /// So many events are DEAD; none if none is.
    pub fn dead(count: u64) -> Option<Self> {
        (count > 0).then(|| {
            Self::warning(
                "dead-events",
                format!("DEAD events: {}", counted(count)),
                "look at their reasons, mend the cause, then replay or discard them",
            )
        })
    }

    /// So many pending rows cannot be read; none if all can.
    pub fn unreadable(count: u64) -> Option<Self> {
        (count > 0).then(|| {
            Self::warning(
                "unreadable-rows",
                format!("pending rows that cannot be read: {count}"),
                "mend the program that writes them; an engine makes them DEAD with the reason",
            )
        })
    }

    /// An operator paused this route so long ago; none if that is borne. `by` is who did it, where that is known.
    pub fn paused(route: &str, ago: Duration, by: Option<&str>, tolerance: &Tolerance) -> Option<Self> {
        let by = by.map(|actor| format!(" by {actor:?}")).unwrap_or_default();
        (ago >= tolerance.paused).then(|| {
            Self::warning(
                "paused-route",
                format!("the route {route:?} has been paused for {}{by}", for_so_long(ago)),
                format!("if that was forgotten, resume it: posthaste resume {route:?}"),
            )
        })
    }

    /// So many pending events lost leases, the worst of them this often; none if none did. An event is lost
    /// with its owner, so one that loses lease after lease is likely to be what kills it.
    pub fn lost_leases(events: u64, most: u32) -> Option<Self> {
        const SUSPECT: u32 = 3;
        if events == 0 {
            return None;
        }
        if most < SUSPECT {
            return Some(Self::warning(
                "lapsing-leases",
                format!("pending events whose leases lapsed in the hands of an engine: {}", counted(events)),
                "see why engines end without a stop or stand still for longer than a lease: their logs, memory \
                 limits and kill signals",
            ));
        }
        Some(Self::problem(
            "crashing-event",
            format!("pending events that lost leases: {}, the worst of them {most} times", counted(events)),
            format!(
                "it may be what crashes its engine: look at it with posthaste event list, and at the engine's last \
                 words; after {MAX_LOST_LEASES} times it is DEAD"
            ),
        ))
    }

    /// So many events wait for a route that no operator has paused, or for any route at all. `parked` is
    /// what stands in their rows.
    pub fn parked(parked: &str, count: u64) -> Self {
        let route = parked_for(parked);
        if route == NO_ROUTE {
            return Self::warning(
                "no-route",
                format!("events that no route takes: {count}"),
                "add a route for their types: after the grace for events without a route they are DEAD",
            );
        }
        Self::note(
            "parked-route",
            format!("events that wait for the route {route:?}, which nobody has paused: {}", counted(count)),
            "see whether its destination can be reached, and whether any engine knows the route",
        )
    }
}

/// A time as a finding names it, in whole seconds.
fn for_so_long(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// A count as a finding names it. Nobody counts on when there are that many.
fn counted(count: u64) -> String {
    match count > Stats::EXACT {
        true => format!("more than {}", Stats::EXACT),
        false => count.to_string(),
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Will hurt some day.
    Warning,
    /// Hurts now.
    Problem,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_does_not_name_a_number_that_nobody_counted() {
        let what = |count| Finding::dead(count).map(|finding| finding.what);
        assert_eq!(what(100_000).as_deref(), Some("DEAD events: 100000"));
        assert_eq!(what(100_001).as_deref(), Some("DEAD events: more than 100000"));
    }
}
