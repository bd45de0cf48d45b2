//! Parts of all reports: the size of the benchmark, and how figures are formatted.

use std::fmt::Write as _;

use posthaste_measurements::count;
use serde::Serialize;

use super::BenchArgs;

/// The size of a benchmark, which every report contains.
#[derive(Debug, Serialize)]
pub(super) struct Setup {
    store: &'static str,
    events: u64,
    rounds: u64,
    payload_bytes: usize,
}

impl Setup {
    pub(super) fn new(store: &'static str, args: &BenchArgs) -> Self {
        Self { store, events: args.events, rounds: args.rounds, payload_bytes: args.payload_bytes }
    }

    /// The first two lines of a report: what was measured, and the size of a measurement.
    pub(super) fn heading(&self, what: &str, measurement: &str) -> String {
        let (rounds, events) = (counted(self.rounds, "round"), counted(self.events, "event"));
        let bytes = count(self.payload_bytes as u64);
        format!(
            "{} store{what}, medians of {rounds}\n{events} of {bytes} bytes per {measurement}",
            self.store
        )
    }
}

/// A figure and its meaning.
pub(super) type Row = (String, String);

/// Writes one line per figure.
pub(super) fn write_rows(text: &mut String, rows: impl IntoIterator<Item = Row>) {
    for (figure, sentence) in rows {
        let _ = writeln!(text, "  {figure:>14}  {sentence}");
    }
}

pub(super) fn row(figure: String, sentence: &str) -> Row {
    (figure, sentence.to_owned())
}

/// The row of a rate in events per second.
pub(super) fn rate(events_per_s: f64, sentence: &str) -> Row {
    row(per_second(events_per_s, "ev"), sentence)
}

pub(super) fn per_second(rate: f64, unit: &str) -> String {
    format!("{} {unit}/s", count(rate as u64))
}

/// A count with its noun: `1 round`, `2 rounds`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}
