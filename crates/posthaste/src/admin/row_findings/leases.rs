//! Findings about lapsed leases: an event that loses lease after lease is probably what kills its owners.

use super::format_count;
use crate::admin::Finding;
use crate::admin::finding_text::quoted;
use crate::store::MAX_LOST_LEASES;

/// From this many lost leases on the event is suspected, not the engine.
const CRASHING_LOST_LEASES: u32 = 3;

/// Pending events whose leases lapsed while an engine held them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLeases {
    /// How many there are.
    pub events: u64,
    /// The most lost leases of one event.
    pub most: u32,
    /// The id of that event.
    pub worst: String,
}

impl LostLeases {
    /// Counts one more pending event.
    pub fn add(&mut self, id: &str, lost: u32) {
        self.events += u64::from(lost > 0);
        if lost > self.most {
            (self.most, self.worst) = (lost, id.to_owned());
        }
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        if self.events == 0 {
            return None;
        }
        let events = format_count(self.events);
        if self.most < CRASHING_LOST_LEASES {
            return Some(Finding::warning(
                "lapsing-leases",
                format!("pending events whose leases lapsed in the hands of an engine: {events}"),
                "see why engines end without a stop or stand still for longer than a lease: their logs, memory \
                 limits and kill signals",
            ));
        }
        let worst = quoted(&self.worst);
        Some(Finding::problem(
            "crashing-event",
            format!(
                "pending events that lost leases: {events}; the worst of them, {worst}, lost {} of them",
                self.most
            ),
            format!(
                "it may be what crashes its engine: look at it with posthaste event show {worst}, and at the \
                 engine's last words; after {MAX_LOST_LEASES} times it is DEAD"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_that_loses_lease_after_lease_is_named() {
        let mut lost = LostLeases::default();
        lost.add("calm", 0);
        assert_eq!(lost.finding(), None);
        lost.add("unlucky", 1);
        lost.add("bad", 7);
        lost.add("poor", 2);
        let finding = lost.finding().expect("a finding");
        assert_eq!((lost.events, finding.code), (3, "crashing-event"));
        assert!(finding.what.contains("\"bad\", lost 7"), "{}", finding.what);
        assert!(finding.advice.contains("posthaste event show \"bad\""), "{}", finding.advice);
    }
}
