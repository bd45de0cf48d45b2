//! Figures and progress bars for people at a terminal, shared by the demo and the benchmarks.
//!
//! It is a crate of its own because `cargo demo` must build without the benchmarks and their broker clients.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Latencies in bounded memory: whole microseconds, to three significant digits.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Quantiles of a [`Histogram`], in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// 99 % of the durations are not longer.
    pub p99: u64,
    /// The number of durations.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new(3).expect("three digits are possible"))
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, duration: Duration) {
        // The histogram grows as needed. Recording fails only if the value does not fit into the machine's memory.
        let _ = self.0.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// The quantiles; `None` if nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Quantiles { p50: at(0.5), p99: at(0.99), count: self.0.len() })
    }
}

/// A duration in the unit that fits: `87 µs`, `1.2 ms`, `3.4 s`.
pub fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// A count with separators: `12,345`.
pub fn count(count: u64) -> String {
    indicatif::HumanCount(count).to_string()
}

/// A progress bar on stderr of `total` steps, or a spinner that only counts. It is hidden unless a person is watching.
pub fn progress_bar(is_watched: bool, total: Option<u64>, message: &'static str) -> ProgressBar {
    if !is_watched {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{msg} [{bar:40}] {pos}/{len} {eta}"),
        None => (ProgressBar::no_length(), "{msg} {spinner} {pos}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(message)
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
