//! The figures of one run: medians of the rounds, as one line of JSON or as a table for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::BenchArgs;
use super::flat::{Flatness, Sample};
use super::rounds::{BATCH, Delivered, Round};
use crate::commands::figures::{Quantiles, count, micros};
use crate::output;

/// What was measured. Rates are per second and medians of the rounds; ratios are medians of the
/// ratios within each round.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    store: &'static str,
    events: u64,
    rounds: u64,
    writers: usize,
    workers: usize,
    payload_bytes: usize,
    business_tx_per_s: f64,
    outbox_tx_per_s: f64,
    hand_written_tx_per_s: f64,
    outbox_to_business: Ratio,
    outbox_to_hand_written: Ratio,
    live_single_events_per_s: f64,
    live_batch_events_per_s: f64,
    backlog_events_per_s: f64,
    write_and_drain_events_per_s: f64,
    latency_us: Option<Quantiles>,
    settle_batch_mean: SettleBatch,
    peak_memory_bytes: Option<u64>,
    flatness: Option<Flatness>,
}

/// A ratio within each round. Where the rounds disagree, the machine was too noisy to tell.
#[derive(Debug, Serialize)]
struct Ratio {
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Ratio {
    fn of(ratios: impl Iterator<Item = f64>) -> Self {
        let mut ratios: Vec<f64> = ratios.map(|ratio| rounded(ratio, 3)).collect();
        ratios.sort_by(f64::total_cmp);
        let (lowest, highest) = (ratios.first().copied(), ratios.last().copied());
        Self {
            lowest: lowest.unwrap_or_default(),
            highest: highest.unwrap_or_default(),
            median: rounded(median(ratios), 3),
        }
    }

    fn row(&self, of_what: &str) -> (String, String) {
        let percent = |ratio: f64| format!("{:.0}", ratio * 100.0);
        let rounds = format!("{of_what} (rounds: {} to {} %)", percent(self.lowest), percent(self.highest));
        (format!("{} %", percent(self.median)), rounds)
    }
}

/// Events per settle statement, by the way they were written.
#[derive(Debug, Serialize)]
struct SettleBatch {
    live_single: f64,
    live_batch: f64,
    backlog: f64,
}

impl Report {
    pub(super) fn new(
        store: &'static str,
        args: &BenchArgs,
        rounds: &[Round],
        latency_us: Option<Quantiles>,
        flatness: Option<Flatness>,
    ) -> Self {
        let of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let rate = |figure: &dyn Fn(&Round) -> f64| of(figure).round();
        let settled =
            |figure: &dyn Fn(&Round) -> Delivered| rounded(of(&|round| figure(round).settle_batch), 1);
        Self {
            store,
            events: args.events,
            rounds: args.rounds,
            writers: args.writers,
            workers: args.workers,
            payload_bytes: args.payload_bytes,
            business_tx_per_s: rate(&|round| round.business),
            outbox_tx_per_s: rate(&|round| round.outbox),
            hand_written_tx_per_s: rate(&|round| round.hand_written),
            outbox_to_business: Ratio::of(rounds.iter().map(|round| round.outbox / round.business)),
            outbox_to_hand_written: Ratio::of(rounds.iter().map(|round| round.outbox / round.hand_written)),
            live_single_events_per_s: rate(&|round| round.live_single.per_second),
            live_batch_events_per_s: rate(&|round| round.live_batch.per_second),
            backlog_events_per_s: rate(&|round| round.backlog.per_second),
            write_and_drain_events_per_s: rate(&|round| round.write_and_drain),
            latency_us,
            settle_batch_mean: SettleBatch {
                live_single: settled(&|round| round.live_single),
                live_batch: settled(&|round| round.live_batch),
                backlog: settled(&|round| round.backlog),
            },
            peak_memory_bytes: peak_memory(),
            flatness,
        }
    }

    fn sections(&self) -> Vec<(&'static str, Vec<(String, String)>)> {
        let mut sections = vec![
            ("Writing", self.writing()),
            ("Delivering to a handler that does nothing", self.delivering()),
            ("Machine", vec![self.memory()]),
        ];
        if let Some(flatness) = &self.flatness {
            sections.push(("A table full of rows that nobody wants", flat_rows(flatness)));
        }
        sections
    }

    fn writing(&self) -> Vec<(String, String)> {
        vec![
            row(per_second(self.business_tx_per_s, "tx"), "with a row of business and no event"),
            row(per_second(self.outbox_tx_per_s, "tx"), "with a row of business and an event by the Writer"),
            row(per_second(self.hand_written_tx_per_s, "tx"), "with both rows by hand-written INSERTs"),
            self.outbox_to_business.row("of the rate without an event"),
            self.outbox_to_hand_written.row("of the rate by hand"),
        ]
    }

    fn delivering(&self) -> Vec<(String, String)> {
        let settle = &self.settle_batch_mean;
        let batch = count(BATCH);
        let mut rows = vec![
            row(
                per_second(self.live_single_events_per_s, "ev"),
                &format!("live, one per transaction ({} per settle statement)", settle.live_single),
            ),
            row(
                per_second(self.live_batch_events_per_s, "ev"),
                &format!("live, {batch} per transaction ({} per settle statement)", settle.live_batch),
            ),
            row(
                per_second(self.backlog_events_per_s, "ev"),
                &format!("from a backlog ({} per settle statement)", settle.backlog),
            ),
            row(
                per_second(self.write_and_drain_events_per_s, "ev"),
                &format!("the same with its writing, {batch} per transaction"),
            ),
        ];
        if let Some(latency) = self.latency_us {
            rows.push(row(micros(latency.p50), "from the answer to COMMIT to the handler, p50"));
            rows.push(row(micros(latency.p99), "from the answer to COMMIT to the handler, p99"));
        }
        rows
    }

    fn memory(&self) -> (String, String) {
        match self.peak_memory_bytes {
            Some(bytes) => {
                row(format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)), "of memory at the most")
            }
            None => row("unknown".to_owned(), "how much memory was used: this system does not say"),
        }
    }
}

/// A table of 80 columns.
impl output::Report for Report {
    fn text(&self) -> String {
        let mut text = format!(
            "{} store, medians of {}\n{} of {} bytes per measurement, {}, {}\n",
            self.store,
            counted(self.rounds, "round"),
            counted(self.events, "event"),
            count(self.payload_bytes as u64),
            counted(self.writers as u64, "writer"),
            counted(self.workers as u64, "worker")
        );
        for (title, rows) in self.sections() {
            let _ = writeln!(text, "\n{title}");
            for (figure, sentence) in rows {
                let _ = writeln!(text, "  {figure:>14}  {sentence}");
            }
        }
        text
    }
}

fn flat_rows(flatness: &Flatness) -> Vec<(String, String)> {
    let batch = flatness.batch;
    let of = |sample: &Sample| {
        let (done, future) = (count(sample.done_rows), count(sample.future_rows));
        let with = format!("with {done} DONE rows and {future} later retries, p50");
        [
            row(p50(sample.claim_us), &format!("to claim {batch} {with}")),
            row(p50(sample.settle_us), &format!("to settle {batch} {with}")),
        ]
    };
    of(&flatness.few).into_iter().chain(of(&flatness.many)).collect()
}

fn row(figure: String, sentence: &str) -> (String, String) {
    (figure, sentence.to_owned())
}

fn p50(quantiles: Option<Quantiles>) -> String {
    quantiles.map_or_else(|| "-".to_owned(), |quantiles| micros(quantiles.p50))
}

fn per_second(rate: f64, unit: &str) -> String {
    format!("{} {unit}/s", count(rate as u64))
}

/// `1 round`, `2 rounds`.
fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (figure * scale).round() / scale
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        len if len % 2 == 1 => figures[middle],
        _ => (figures[middle - 1] + figures[middle]) / 2.0,
    }
}

/// The most memory that this process ever had, where the system says it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn ratio_shows_how_far_its_rounds_disagree() {
        let (figure, sentence) = Ratio::of([0.9, 0.7, 1.1].into_iter()).row("of it");
        assert_eq!((figure.as_str(), sentence.as_str()), ("90 %", "of it (rounds: 70 to 110 %)"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn peak_memory_is_known_on_linux() {
        assert!(peak_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
