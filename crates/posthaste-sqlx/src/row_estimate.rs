//! Estimates the number of rows from samples.
//!
//! Counting ten million rows takes seconds, and the statistics of a server are old, missing, or not visible to every
//! user. But rows are ordered by `seq`, and an index finds any position among them. So a few rows are read at positions
//! that are spread evenly from the first to the last `seq`: how close together they are shows how many there are.

use posthaste::admin::{PendingCounts, Stats};
use sqlx::Row;

use crate::row::ReadValues;

/// The number of sampled positions.
const SAMPLE_COUNT: u8 = 64;

/// The number of rows that are read at each position: `{rows}` in the statements.
pub(crate) const ROWS_PER_SAMPLE: u64 = 100;

/// The statements for rows of one kind: the first and last `seq`, as [`span!`](span) writes it, and a sample at one
/// position.
pub(crate) struct SampledRows {
    pub(crate) span: &'static str,
    pub(crate) sample: &'static str,
}

/// The query of the first and last `seq` of rows, for [`Span::read`].
macro_rules! span {
    ($from:literal) => {
        concat!(
            "SELECT (SELECT seq FROM ",
            $from,
            " ORDER BY seq LIMIT 1), (SELECT seq FROM ",
            $from,
            " ORDER BY seq DESC LIMIT 1)"
        )
    };
}
pub(crate) use span;

/// The first and the last `seq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Span {
    /// Reads the row of a [`span!`](span) query. `None` if there are no rows.
    pub(crate) fn read<R: ReadValues>(row: &R) -> sqlx::Result<Option<Self>> {
        let (first, last) = (row.optional_int_at(0)?, row.optional_int_at(1)?);
        Ok(first.zip(last).map(|(first, last)| Self { first, last }))
    }

    /// The positions of the samples.
    pub(crate) fn sample_positions(self) -> Vec<i64> {
        let position =
            |n: u8| i128::from(self.first) + self.width() * i128::from(n) / i128::from(SAMPLE_COUNT);
        (0..SAMPLE_COUNT).map(|n| position(n) as i64).collect()
    }

    fn width(self) -> i128 {
        i128::from(self.last) - i128::from(self.first) + 1
    }

    /// The estimate from the samples, one row for each as [`Sample::read`] takes it.
    pub(crate) fn read_estimate<R: Row + ReadValues>(self, rows: &[R]) -> sqlx::Result<Estimate> {
        Ok(self.estimate(&rows.iter().map(Sample::read).collect::<Result<Vec<_>, _>>()?))
    }

    fn estimate(self, samples: &[Sample]) -> Estimate {
        let step = self.width() as f64 / f64::from(SAMPLE_COUNT);
        let (mut rows, mut states) = (0.0, [0.0; 6]);
        for sample in samples {
            // A sample that is not full contains all rows up to the end.
            let end = if sample.rows < ROWS_PER_SAMPLE { self.last } else { sample.last };
            let weight = step / (end.saturating_sub(sample.position) as f64 + 1.0).max(1.0);
            rows += weight * sample.rows as f64;
            states
                .iter_mut()
                .zip(sample.states)
                .for_each(|(sum, n): (&mut f64, u64)| *sum += weight * n as f64);
        }
        Estimate { rows: rows as u64, states: states.map(|n: f64| n as u64) }
    }
}

/// The sample at one position.
#[derive(Clone, Copy, Debug)]
struct Sample {
    position: i64,
    rows: u64,
    /// The last `seq` in the sample.
    last: i64,
    /// The numbers of rows that are new, retried, due, leased, parked and scheduled; 0 if the query does not return
    /// them.
    states: [u64; 6],
}

impl Sample {
    /// Reads a row with the position, the number of rows, the last `seq`, and optionally the states.
    fn read<R: Row + ReadValues>(row: &R) -> sqlx::Result<Self> {
        let states = if row.len() > 3 { states(row, 3)? } else { [0; 6] };
        Ok(Self { position: row.int_at(0)?, rows: row.count_at(1)?, last: row.int_at(2)?, states })
    }
}

/// The estimated number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) rows: u64,
    states: [u64; 6],
}

impl Estimate {
    /// The estimate as the statistics of pending rows, which were too many to count.
    pub(crate) fn pending(self) -> Stats {
        let mut stats = pending(self.states);
        stats.estimate_pending(at_least_counted(self.rows));
        stats
    }
}

/// Reads a row with the states of all pending rows.
pub(crate) fn read_pending<R: ReadValues>(row: &R) -> sqlx::Result<Stats> {
    states(row, 0).map(pending)
}

/// Reads six counts: new, retried, due, leased, parked, scheduled.
fn states<R: ReadValues>(row: &R, first: usize) -> sqlx::Result<[u64; 6]> {
    let mut states = [0; 6];
    for (n, state) in states.iter_mut().enumerate() {
        *state = row.count_at(first + n)?;
    }
    Ok(states)
}

/// The counts of pending rows as [`Stats`].
fn pending(states: [u64; 6]) -> Stats {
    let [new, retry, due, leased, parked, scheduled] = states;
    Stats::of_pending(PendingCounts { new, retry, due, leased, parked, scheduled })
}

/// Raises an estimate to the number of rows that were counted.
pub(crate) fn at_least_counted(rows: u64) -> u64 {
    rows.max(Stats::MAX_EXACT_COUNT + 1)
}

/// True if counting stopped at its limit.
pub(crate) fn is_too_many(count: u64) -> bool {
    count > Stats::MAX_EXACT_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of a table with these rows at the positions of `span`; every tenth row is a retry.
    fn samples(rows: &[i64], span: Span) -> Vec<Sample> {
        let at = |position: i64| {
            let start = rows.partition_point(|&seq| seq < position);
            let found = &rows[start..rows.len().min(start + ROWS_PER_SAMPLE as usize)];
            let retry = found.iter().filter(|&&seq| seq % 10 == 0).count() as u64;
            let states = [found.len() as u64 - retry, retry, 0, 0, 0, 0];
            let last = found.last().copied().unwrap_or_default();
            Sample { position, rows: found.len() as u64, last, states }
        };
        span.sample_positions().into_iter().map(at).collect()
    }

    fn estimate(rows: &[i64]) -> Estimate {
        let span = Span { first: rows[0], last: rows[rows.len() - 1] };
        span.estimate(&samples(rows, span))
    }

    #[track_caller]
    fn assert_near(estimated: u64, real: usize, percent: u64) {
        let off = estimated.abs_diff(real as u64) * 100;
        assert!(off <= percent * real as u64, "{estimated} for {real}");
    }

    #[test]
    fn rows_without_gaps_are_estimated_well() {
        let rows: Vec<i64> = (5000..1_005_000).collect();
        let found = estimate(&rows);
        assert_near(found.rows, rows.len(), 1);
        assert_near(found.states[1], rows.len() / 10, 1);
    }

    #[test]
    fn gaps_count_for_nothing() {
        let sparse: Vec<i64> = (0..300_000).map(|n| n * 7).collect();
        assert_near(estimate(&sparse).rows, sparse.len(), 2);
        let half_gone: Vec<i64> = (0..200_000).chain(400_000..600_000).collect();
        assert_near(estimate(&half_gone).rows, half_gone.len(), 5);
    }

    #[test]
    fn parked_rows_are_never_more_than_there_are_whatever_the_gaps() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..1000 {
            let span = Span { first: 0, last: random.i64(200_000..2_000_000) };
            let retry = random.u64(1..ROWS_PER_SAMPLE);
            let states = [ROWS_PER_SAMPLE - retry, retry, 0, 0, ROWS_PER_SAMPLE, 0];
            let mut sample = |position| Sample {
                position,
                rows: ROWS_PER_SAMPLE,
                last: position + random.i64(99..5000),
                states,
            };
            let samples: Vec<_> = span.sample_positions().into_iter().map(&mut sample).collect();
            let stats = span.estimate(&samples).pending();
            assert_eq!((stats.parked, stats.due), (stats.new + stats.retry, 0));
        }
    }

    #[test]
    fn widest_span_does_not_overflow() {
        let span = Span { first: i64::MIN, last: i64::MAX };
        assert_eq!(span.sample_positions().len(), usize::from(SAMPLE_COUNT));
        span.estimate(&samples(&[i64::MIN, 0, i64::MAX], span));
    }
}
