//! Findings about the clocks of producers, from the times in the newest rows.

use std::time::Duration;

use super::format_duration;
use crate::admin::{Finding, Tolerance};
use crate::time::Timestamp;

/// Older rows say nothing about the clocks of today.
const MAX_ROW_AGE: Duration = Duration::from_secs(3600);

/// A single event that is older than its row may have been written late. With this many in sequence the clock is
/// behind.
const MIN_LATE_EVENTS: usize = 10;

const CLOCK_ADVICE: &str = "compare the clocks of the machines that write events with the store's, and let all take \
                            the time from one source (NTP): the time of an event comes from its producer's clock";

/// `written` has, per row, when the event happened and when it was inserted.
pub(super) fn findings(
    now: Timestamp,
    written: &[(Timestamp, Timestamp)],
    tolerance: &Tolerance,
) -> impl Iterator<Item = Finding> {
    let recent: Vec<_> = written.iter().filter(|(_, inserted)| now.since(*inserted) <= MAX_ROW_AGE).collect();
    let ahead: Vec<Duration> = recent
        .iter()
        .map(|(created, inserted)| created.since(*inserted))
        .filter(|ahead| *ahead > tolerance.skew)
        .collect();
    let least = recent.iter().map(|(created, inserted)| inserted.since(*created)).min().unwrap_or_default();
    let behind = recent.len() >= MIN_LATE_EVENTS && least > tolerance.skew;
    let ahead = ahead.iter().max().map(|most| too_fast(ahead.len(), *most));
    ahead.into_iter().chain(behind.then(|| too_slow(recent.len(), least)))
}

fn too_fast(events: usize, most: Duration) -> Finding {
    let most = format_duration(most);
    let what = format!(
        "recent events that happened after they were inserted: {events}, by up to {most}: the clock of a \
         producer is ahead of the store's"
    );
    Finding::warning("clock-skew", what, CLOCK_ADVICE)
}

fn too_slow(events: usize, least: Duration) -> Finding {
    let least = format_duration(least);
    let what = format!(
        "the newest {events} events all happened {least} or more before they were inserted: the clocks of \
         their producers are behind the store's, unless they write events that late"
    );
    Finding::note("clock-skew", what, CLOCK_ADVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    fn found(rows: &[(i64, i64)]) -> Vec<Finding> {
        let at = |secs: i64| Timestamp::from_micros(NOW.as_micros() + secs * 1_000_000);
        let rows: Vec<_> = rows.iter().map(|(created, inserted)| (at(*created), at(*inserted))).collect();
        findings(NOW, &rows, &Tolerance::default()).collect()
    }

    #[test]
    fn producer_whose_clock_is_ahead_is_found_by_one_event() {
        let findings = found(&[(0, 0), (-100, -1), (60, -1)]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("inserted: 1, by up to 1m 1s"), "{findings:?}");
        assert!(found(&[(4, -1)]).is_empty(), "within the tolerance");
        assert!(found(&[(9000, -7200)]).is_empty(), "long ago");
    }

    #[test]
    fn clocks_that_are_behind_are_behind_in_every_event() {
        let late = [(-100, -1); MIN_LATE_EVENTS];
        let findings = found(&late);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("newest 10 events all happened 1m 39s or more"), "{findings:?}");
        assert!(found(&late[1..]).is_empty(), "a few may have been written late");
        let mixed: Vec<_> = late.iter().copied().chain([(-1, -1)]).collect();
        assert!(found(&mixed).is_empty());
    }

    #[test]
    fn any_time_is_handled() {
        let ends = [Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX)];
        for created in ends {
            for inserted in ends {
                let _ = findings(NOW, &[(created, inserted)], &Tolerance::default()).count();
            }
        }
    }
}
