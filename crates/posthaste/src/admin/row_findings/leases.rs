//! Findings about lapsed leases. An event that loses several leases probably crashes the engines that claim it.

use super::format_count;
use crate::admin::Finding;
use crate::admin::finding_text::quoted;
use crate::store::MAX_LOST_LEASES;

/// From this number of lost leases on, the event is the suspected cause, not the engine.
const CRASHING_LOST_LEASES: u32 = 3;

/// Pending events whose leases lapsed while an engine held them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLeases {
    /// How many there are.
    pub events: u64,
    /// The highest number of lost leases of one event.
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
                format!("pending events whose leases lapsed while an engine held them: {events}"),
                "find out why engines crash, are killed, or hang for longer than a lease: check their logs, \
                 memory limits and kill signals",
            ));
        }
        let worst = quoted(&self.worst);
        Some(Finding::problem(
            "crashing-event",
            format!(
                "pending events that lost leases: {events}; most by one event: {}, by {worst}",
                self.most
            ),
            format!(
                "this event may crash its engine: run posthaste event show {worst}, and read the last log lines \
                 of the engine; after {MAX_LOST_LEASES} lost leases the event becomes DEAD"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_with_the_most_lost_leases_is_named() {
        let mut lost = LostLeases::default();
        lost.add("calm", 0);
        assert_eq!(lost.finding(), None);
        lost.add("unlucky", 1);
        lost.add("bad", 7);
        lost.add("poor", 2);
        let finding = lost.finding().expect("a finding");
        assert_eq!((lost.events, finding.code), (3, "crashing-event"));
        assert!(finding.what.contains("most by one event: 7, by \"bad\""), "{}", finding.what);
        assert!(finding.advice.contains("posthaste event show \"bad\""), "{}", finding.advice);
    }
}
