//! Rates, computed from two readings of the counts.
//!
//! The store does not count deliveries, so a rate is the difference of two counts. Rows that were deleted between the
//! readings are missing from it, and a change of an estimate means nothing over a few seconds.

use std::time::Duration;

use posthaste::admin::Stats;
use serde::Serialize;

use crate::output;

/// Events per second between two readings; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::commands) struct Rates {
    /// Seconds between the readings.
    seconds: f64,
    /// Growth of the backlog; negative if it shrinks.
    backlog_per_second: Option<f64>,
    /// Lower bound of the deliveries.
    pub(in crate::commands) delivered_per_second: Option<f64>,
    /// Lower bound of the writes.
    pub(in crate::commands) written_per_second: Option<f64>,
}

impl Rates {
    pub(in crate::commands) fn between(before: &Stats, after: &Stats, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
        let per_second = |events: i64| events as f64 / seconds;
        let change = CountChange::between(before, after);
        Self {
            seconds,
            backlog_per_second: change.pending.map(per_second),
            delivered_per_second: change.delivered().map(per_second),
            written_per_second: change.written().map(per_second),
        }
    }

    /// One row per rate, with an explanation of what it is based on.
    pub(super) fn text(rates: Option<&Self>) -> String {
        let Some(rates) = rates else {
            return output::pairs([("per second", "after the next reading".into())]);
        };
        let known = |rate: Option<f64>, how: &str| match rate {
            Some(rate) => (format!("{rate:.1}"), how.to_owned()),
            None => {
                ("-".to_owned(), "unknown: rows are not kept, were deleted, or are only estimated".into())
            }
        };
        let (backlog, how) = known(rates.backlog_per_second, "more or fewer pending rows");
        let backlog =
            if backlog.starts_with(|c: char| c.is_ascii_digit()) { format!("+{backlog}") } else { backlog };
        let (delivered, from_done) =
            known(rates.delivered_per_second, "at least: more DONE or archived rows");
        let (written, from_all) = known(rates.written_per_second, "at least: more rows in all");
        output::counts([
            ("backlog per second", backlog, how),
            ("delivered per second", delivered, from_done),
            ("written per second", written, from_all),
        ])
    }
}

/// Differences of two readings; `None` if one of the counts is an estimate.
struct CountChange {
    pending: Option<i64>,
    done: Option<i64>,
    dead: Option<i64>,
    archived: Option<i64>,
    /// Whether the store keeps any delivered row.
    kept: bool,
}

impl CountChange {
    fn between(before: &Stats, after: &Stats) -> Self {
        let (a, b) = (before.estimated, after.estimated);
        let exact = |estimated: bool, before: u64, after: u64| {
            let changed = i64::try_from(i128::from(after) - i128::from(before)).ok();
            changed.filter(|_| !estimated)
        };
        let pending = |stats: &Stats| stats.new + stats.retry;
        Self {
            pending: exact(a.pending || b.pending, pending(before), pending(after)),
            done: exact(a.done || b.done, before.done, after.done),
            dead: exact(a.dead || b.dead, before.dead, after.dead),
            archived: exact(a.archived || b.archived, before.archived, after.archived),
            kept: after.done > 0 || after.archived > before.archived,
        }
    }

    /// The rows that were delivered. A DONE row that moves to the archive is counted once. If DEAD rows disappeared
    /// while the archive grew, it is unknown which of them were archived.
    fn delivered(&self) -> Option<i64> {
        let archived = self.archived?;
        let ended = self.done? + archived;
        let known = self.kept && ended >= 0 && (archived == 0 || self.dead? >= 0);
        known.then_some(ended)
    }

    /// The rows that were written. A replay moves a row from one count to another and does not change the sum.
    fn written(&self) -> Option<i64> {
        self.delivered()?;
        Some(self.pending? + self.done? + self.dead? + self.archived?).filter(|written| *written >= 0)
    }
}

#[cfg(test)]
mod tests {
    use posthaste::admin::Estimated;

    use super::*;

    fn stats(new: u64, done: u64, dead: u64, archived: u64) -> Stats {
        let mut stats = Stats::default();
        (stats.new, stats.done, stats.dead, stats.archived) = (new, done, dead, archived);
        stats
    }

    /// Backlog, delivered and written over two seconds.
    fn rates(before: &Stats, after: &Stats) -> [Option<f64>; 3] {
        let rates = Rates::between(before, after, Duration::from_secs(2));
        [rates.backlog_per_second, rates.delivered_per_second, rates.written_per_second]
    }

    #[test]
    fn rates_are_differences_of_counts() {
        assert_eq!(
            rates(&stats(10, 5, 1, 0), &stats(4, 15, 2, 0)),
            [Some(-3.0), Some(5.0), Some(2.5)],
            "5 were written, 10 delivered, 1 died"
        );
        assert_eq!(
            rates(&stats(0, 5, 4, 0), &stats(1, 8, 0, 0)),
            [Some(0.5), Some(1.5), Some(0.0)],
            "replayed"
        );
        assert_eq!(
            rates(&stats(0, 5, 0, 0), &stats(0, 1, 0, 6)),
            [Some(0.0), Some(1.0), Some(1.0)],
            "archived"
        );
    }

    #[test]
    fn rate_that_two_readings_cannot_show_is_unknown() {
        let no_rows_kept = rates(&stats(10, 0, 0, 0), &stats(4, 0, 0, 0));
        assert_eq!(no_rows_kept, [Some(-3.0), None, None]);
        let purged = rates(&stats(0, 500, 0, 0), &stats(0, 100, 0, 0));
        assert_eq!(purged, [Some(0.0), None, None]);
        let dead_rows_archived = rates(&stats(0, 5, 9, 0), &stats(0, 6, 0, 9));
        assert_eq!(dead_rows_archived, [Some(0.0), None, None]);
    }

    #[test]
    fn estimated_counts_give_no_rate() {
        let estimated = |estimated| {
            let mut stats = stats(200_000, 9, 0, 0);
            stats.estimated = estimated;
            stats
        };
        let pending = estimated(Estimated { pending: true, ..Estimated::default() });
        assert_eq!(rates(&stats(0, 8, 0, 0), &pending), [None, Some(0.5), None]);
        let done = estimated(Estimated { done: true, ..Estimated::default() });
        assert_eq!(rates(&done, &stats(200_002, 9, 0, 0)), [Some(1.0), None, None]);
    }

    #[test]
    fn growth_of_the_backlog_has_a_sign() {
        let text =
            |after| Rates::text(Some(&Rates::between(&stats(2, 1, 0, 0), &after, Duration::from_secs(1))));
        assert!(text(stats(4, 1, 0, 0)).contains(" +2.0 "), "{}", text(stats(4, 1, 0, 0)));
        assert!(text(stats(1, 1, 0, 0)).contains(" -1.0 "), "{}", text(stats(1, 1, 0, 0)));
    }
}
