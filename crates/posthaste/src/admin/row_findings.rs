//! Findings about rows: turns a store's observations of its rows into findings, the same findings in the same words for
//! every store.

mod clocks;
mod leases;
mod parked;
mod paused;

use std::time::Duration;

pub use self::leases::LostLeases;
pub use self::parked::ParkedRoute;
pub use self::paused::PausedRoute;

use super::finding_text::{format_count, format_duration};
use super::{Finding, Stats, Tolerance};
use crate::time::Timestamp;

/// A store's observations of its rows. A store fills in what it can find out without reading more than a bounded number
/// of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RowObservations {
    /// The time by the store's clock.
    pub now: Timestamp,
    /// How many of the oldest pending rows cannot be decoded.
    pub unreadable: u64,
    /// Lapsed leases of the oldest pending rows.
    pub lost_leases: LostLeases,
    /// Parked events, one entry for each park reason.
    pub parked: Vec<ParkedRoute>,
    /// Routes that an operator has paused.
    pub paused: Vec<PausedRoute>,
    /// `created_at` and `inserted_at` of the newest rows.
    pub written: Vec<(Timestamp, Timestamp)>,
}

impl RowObservations {
    /// The maximum number of pending rows that a store reads, oldest first.
    pub const MAX_OLDEST_ROWS: usize = 10_000;

    /// The maximum number of newest rows that a store reads.
    pub const MAX_NEWEST_ROWS: usize = 1000;

    /// The findings about these observations and counts.
    pub fn findings(&self, stats: &Stats, tolerance: &Tolerance) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(stats.oldest_pending.and_then(|age| late(age, tolerance)));
        findings.extend(dead(stats.dead));
        findings.extend(unreadable(self.unreadable));
        findings.extend(self.lost_leases.finding());
        findings.extend(paused::findings(self, tolerance));
        findings.extend(parked::findings(self));
        findings.extend(clocks::findings(self.now, &self.written, tolerance));
        findings
    }
}

fn late(age: Duration, tolerance: &Tolerance) -> Option<Finding> {
    (age >= tolerance.late).then(|| {
        Finding::problem(
            "late",
            format!("the oldest pending event that has been due was inserted {} ago", format_duration(age)),
            "check whether an engine runs, which destinations are slow, and which routes are closed",
        )
    })
}

fn dead(count: u64) -> Option<Finding> {
    (count > 0).then(|| {
        Finding::warning(
            "dead-events",
            format!("DEAD events: {}", format_count(count)),
            "look at their reasons, fix the cause, then replay or discard them",
        )
    })
}

fn unreadable(count: u64) -> Option<Finding> {
    (count > 0).then(|| {
        Finding::warning(
            "unreadable-rows",
            format!("pending rows that cannot be read: {count}"),
            "fix the program that writes them; an engine makes them DEAD with the reason",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(observed: &RowObservations, stats: &Stats, tolerance: &Tolerance) -> Vec<&'static str> {
        observed.findings(stats, tolerance).iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn finding_does_not_name_a_number_that_was_not_counted() {
        let what = |count| dead(count).map(|finding| finding.what);
        assert_eq!(what(100_000).as_deref(), Some("DEAD events: 100000"));
        assert_eq!(what(100_001).as_deref(), Some("DEAD events: more than 100000"));
    }

    #[test]
    fn outbox_without_observations_has_no_findings() {
        let strict = Tolerance::default()
            .with_late(Duration::ZERO)
            .with_paused(Duration::ZERO)
            .with_skew(Duration::ZERO);
        assert!(codes(&RowObservations::default(), &Stats::default(), &strict).is_empty());
    }

    #[test]
    fn tolerance_decides_what_is_late() {
        let stats = Stats { oldest_pending: Some(Duration::from_secs(90)), ..Stats::default() };
        assert!(codes(&RowObservations::default(), &stats, &Tolerance::default()).is_empty());
        let strict = Tolerance::default().with_late(Duration::from_secs(90));
        assert_eq!(codes(&RowObservations::default(), &stats, &strict), ["late"]);
    }
}
