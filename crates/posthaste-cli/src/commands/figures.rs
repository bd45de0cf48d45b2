//! Figures for people: latencies in bounded memory, and how durations and rates are written.

use std::time::Duration;

/// Each power of two is split into so many buckets, so that a quantile is at most 0.8 % too large.
const STEPS: usize = 128;

/// Counts durations by their length in microseconds; it never grows past a few thousand buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

/// What a reader wants to know of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) count: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, duration: Duration) {
        let bucket = bucket_of(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
    }

    /// In microseconds; none of nothing.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            p50: self.quantile(50),
            p99: self.quantile(99),
            count: self.count,
        })
    }

    fn quantile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, largest_in)
    }
}

fn bucket_of(micros: u64) -> usize {
    let steps = STEPS as u64;
    if micros < steps {
        return micros as usize;
    }
    let doublings = (micros / steps).ilog2() as usize;
    let step = (micros >> doublings) as usize - STEPS;
    // A power of two begins where the one before it ends.
    STEPS + doublings * STEPS + step
}

fn largest_in(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (doublings, step) = ((bucket - STEPS) / STEPS, (bucket - STEPS) % STEPS);
    let next = (STEPS + step + 1) as u128;
    u64::try_from((next << doublings) - 1).unwrap_or(u64::MAX)
}

/// `87 µs`, `1.2 ms`, `3.4 s`.
pub(crate) fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// `12,345`.
pub(crate) fn count(count: u64) -> String {
    indicatif::HumanCount(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_that_bounds_it_closely() {
        for shift in 0..63 {
            for micros in [1_u64 << shift, (1 << shift) + 1, (2_u64 << shift) - 1] {
                let bound = largest_in(bucket_of(micros));
                assert!(bound >= micros, "{micros} in a bucket up to {bound}");
                assert!(bound - micros <= micros / STEPS as u64, "{micros} in a bucket up to {bound}");
            }
        }
        assert_eq!(largest_in(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_those_of_the_durations_added() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(), None);
        for micros in 1..=100 {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!(histogram.quantiles(), Some(Quantiles { p50: 50, p99: 99, count: 100 }));
    }

    #[test]
    fn durations_are_written_in_the_unit_that_fits() {
        let written = [999, 1_250, 12_500, 1_500_000].map(micros);
        assert_eq!(written, ["999 µs", "1.2 ms", "12 ms", "1.5 s"]);
    }
}
