//! Figures: rates, latencies in bounded memory, and how durations and counts are written for people.

use std::time::Duration;

use serde::Serialize;

/// Counts durations by their length in microseconds, to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

/// The figures of a histogram, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new(3).expect("three digits are possible"))
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, duration: Duration) {
        // It grows as needed, and fails only where a value does not fit into the memory of the machine.
        let _ = self.0.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// `None` of nothing.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Quantiles { p50: at(0.5), p99: at(0.99), count: self.0.len() })
    }
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

pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_durations_added() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(), None);
        for micros in 1..=100 {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!(histogram.quantiles(), Some(Quantiles { p50: 50, p99: 99, count: 100 }));
        histogram.add(Duration::MAX);
        assert_eq!(histogram.quantiles().map(|quantiles| quantiles.count), Some(101));
    }

    #[test]
    fn durations_are_written_in_the_unit_that_fits() {
        let written = [999, 1_250, 12_500, 1_500_000].map(micros);
        assert_eq!(written, ["999 µs", "1.2 ms", "12 ms", "1.5 s"]);
    }
}
