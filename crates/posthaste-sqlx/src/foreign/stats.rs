//! Statistics of a foreign table: exact counts up to a limit, estimates beyond it.

use posthaste::admin::{Estimated, Stats};

/// The largest number of rows that is counted: one more than the largest exact count.
pub(crate) const MAX_COUNTED_ROWS: u64 = Stats::MAX_EXACT_COUNT + 1;

/// Numbers of rows by state, each counted up to [`MAX_COUNTED_ROWS`], and the estimate of the database for all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) archived: u64,
    pub(crate) total: u64,
}

impl Counts {
    /// Every pending row counts as new and due, because due times are in the memory of the process that delivers.
    pub(crate) fn stats(self) -> Stats {
        let all = [self.pending, self.sent, self.failed, self.archived];
        let counted: u64 = all.iter().filter(|count| **count < MAX_COUNTED_ROWS).sum();
        let large = all.iter().filter(|count| **count >= MAX_COUNTED_ROWS).count() as u64;
        let estimate = |count: u64| match count < MAX_COUNTED_ROWS {
            true => count,
            // The rest of the estimate is divided among the states that have too many rows to count.
            false => (self.total.saturating_sub(counted) / large.max(1)).max(MAX_COUNTED_ROWS),
        };
        let [pending, done, dead, archived] = all.map(estimate);
        let mut stats = Stats::default();
        (stats.new, stats.due) = (pending, pending);
        (stats.done, stats.dead, stats.archived) = (done, dead, archived);
        let [pending, done, dead, archived] = all.map(|count| count >= MAX_COUNTED_ROWS);
        stats.estimated = Estimated { pending, done, dead, archived };
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_beyond_the_limit_are_estimated() {
        let counts = Counts { pending: 3, sent: MAX_COUNTED_ROWS, failed: 2, archived: 0, total: 10_000_005 };
        let stats = counts.stats();
        assert_eq!((stats.new, stats.due, stats.dead, stats.done), (3, 3, 2, 10_000_000));
        assert!(stats.estimated.done && !stats.estimated.pending && !stats.estimated.dead);
    }

    #[test]
    fn estimate_is_never_less_than_the_count() {
        let counts =
            Counts { pending: MAX_COUNTED_ROWS, sent: MAX_COUNTED_ROWS, failed: 0, archived: 0, total: 0 };
        assert_eq!((counts.stats().new, counts.stats().done), (MAX_COUNTED_ROWS, MAX_COUNTED_ROWS));
    }
}
