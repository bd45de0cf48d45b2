//! Results of a store benchmark as a table of 80 columns.

use std::fmt::Write as _;

use super::batch_size::SizeRates;
use super::drain_with_snapshot::HeldSnapshot;
use super::report_format::{Row, counted, per_second, row, write_rows};
use super::soak::SteadyLoad;
use super::statistics::Ratio;
use super::store_report::{ByHandReport, StoreReport};
use super::store_round::{BATCH_EVENTS, FEW_EVENTS};
use super::table_size::{TableSample, TableSizeComparison};
use posthaste_measurements::{Quantiles, count, micros};

impl StoreReport {
    /// The report as text.
    pub(crate) fn text(&self) -> String {
        let (writers, workers) = (self.writers as u64, self.workers as u64);
        let threads = format!("{}, {}\n", counted(writers, "writer"), counted(workers, "worker"));
        let mut text = format!("{}, {threads}", self.setup.heading("", "measurement"));
        for (title, rows) in self.sections() {
            let _ = writeln!(text, "\n{title}");
            write_rows(&mut text, rows);
        }
        text
    }

    fn sections(&self) -> Vec<(&'static str, Vec<Row>)> {
        let mut sections = vec![
            ("Writing", self.writing()),
            ("Delivering to a handler that does nothing", self.delivering()),
            ("Claiming and settling, one call after the other", self.calling()),
            ("Settling 1,000 rows per statement", self.settling()),
            ("Latency from COMMIT to the handler", self.latency()),
        ];
        if let Some(by_hand) = &self.by_hand {
            sections.push(("Compared with a hand-written relay", by_hand.rows()));
        }
        if let Some(flatness) = &self.single.flatness {
            sections.push(("A table full of DONE and future rows", table_size_rows(flatness)));
        }
        if let Some(snapshot) = &self.single.snapshot {
            sections.push(("A backlog drained while a snapshot is held", snapshot_rows(snapshot)));
        }
        if let Some(steady) = &self.single.steady {
            sections.push(("A steady load", steady_rows(steady)));
        }
        sections.push(("Machine", vec![memory(self.peak_memory_bytes, "of memory at most")]));
        sections
    }

    fn writing(&self) -> Vec<Row> {
        let mut rows = vec![
            row(per_second(self.business_tx_per_s, "tx"), "with a business row and no event"),
            row(per_second(self.outbox_tx_per_s, "tx"), "with a business row and an event by the Writer"),
            row(per_second(self.writer_only_tx_per_s, "tx"), "the same, delivered by another process"),
            row(per_second(self.hand_written_tx_per_s, "tx"), "with both written by hand"),
        ];
        add(&mut rows, &self.outbox_to_business, "of the rate without an event");
        add(&mut rows, &self.writer_only_to_business, "of it, where another process delivers");
        add(&mut rows, &self.outbox_to_hand_written, "of the rate by hand");
        let few = |how| format!("{FEW_EVENTS} per transaction, by {how}");
        rows.push(row(per_second(self.few_together_events_per_s, "ev"), &few("one call")));
        rows.push(row(per_second(self.few_singly_events_per_s, "ev"), &few("one call each")));
        add(&mut rows, &self.few_together_to_singly, "of the rate by one call each");
        rows
    }

    fn delivering(&self) -> Vec<Row> {
        let settle = &self.settle_batch_mean;
        let batch = count(BATCH_EVENTS);
        let mut rows = vec![
            row(
                per_second(self.live_single_events_per_s, "ev"),
                &format!("live, one and business per tx ({} per settle)", settle.live_single),
            ),
            row(counted(self.live_single_lag_events, "event"), "not settled at the last commit, at most"),
        ];
        add(&mut rows, &self.live_single_to_business, "of the rate without an event");
        rows.extend([
            row(
                per_second(self.live_batch_events_per_s, "ev"),
                &format!("live, {batch} per transaction ({} per settle)", settle.live_batch),
            ),
            row(
                per_second(self.backlog_events_per_s, "ev"),
                &format!("from a backlog ({} per settle)", settle.backlog),
            ),
            row(
                per_second(self.write_and_drain_events_per_s, "ev"),
                &format!("the same with its writing, {batch} per transaction"),
            ),
        ]);
        rows
    }

    fn calling(&self) -> Vec<Row> {
        let of = |rates: &SizeRates, end: &str| {
            let per_call = |rate, size: &str| row(per_second(rate, "ev"), &format!("{size} per call, {end}"));
            let mut rows = vec![
                per_call(rates.one, "one"),
                per_call(rates.hundred, "100"),
                per_call(rates.thousand, "1,000"),
            ];
            add(&mut rows, &rates.hundred_to_one, "of the rate of one per call with 100");
            rows
        };
        let rates = &self.claim_and_settle_events_per_s;
        let deleted = of(&rates.deleted, "deleted");
        of(&rates.kept, "kept as DONE").into_iter().chain(deleted).collect()
    }

    fn settling(&self) -> Vec<Row> {
        let rates = &self.single.settle_rows_per_s;
        let mut rows = vec![
            row(per_second(rates.kept, "rows"), "kept as DONE"),
            row(per_second(rates.deleted, "rows"), "deleted"),
        ];
        let one_by_one = |rate| row(per_second(rate, "rows"), "kept as DONE by hand, one by one");
        rows.extend(rates.one_by_one.map(one_by_one));
        add(&mut rows, &rates.kept_to_one_by_one, "of that with 1,000 per statement");
        rows
    }

    fn latency(&self) -> Vec<Row> {
        let of = |quantiles: Option<Quantiles>, place: &str| {
            let rows = quantiles.map(|quantiles| {
                [
                    row(micros(quantiles.p50), &format!("{place}, p50")),
                    row(micros(quantiles.p99), &format!("{place}, p99")),
                ]
            });
            rows.into_iter().flatten()
        };
        let cross_process = self.single.between_processes_us.map(|cross_process| {
            let late =
                row(counted(cross_process.late, "event"), "missed their notification and waited for a poll");
            of(cross_process.us, "in another process").chain([late])
        });
        of(self.single.latency_us, "in the same process").chain(cross_process.into_iter().flatten()).collect()
    }
}

impl ByHandReport {
    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![row(
            per_second(self.drain_events_per_s, "ev"),
            "drained by claiming and settling concurrently",
        )];
        add(&mut rows, &self.backlog_to_drain, "of that is the engine's rate");
        rows.push(row(per_second(self.one_by_one_events_per_s, "ev"), "drained and settled one by one"));
        add(&mut rows, &self.backlog_to_one_by_one, "of that is the engine's rate");
        rows.extend(
            self.proved_tx_per_s
                .map(|rate| row(per_second(rate, "tx"), "both INSERTs, and a check before COMMIT")),
        );
        add(&mut rows, &self.proved_to_hand_written, "of the rate without that check");
        add(&mut rows, &self.outbox_to_proved, "of that is the Writer's rate");
        rows.extend(
            self.without_notify_tx_per_s.map(|rate| {
                row(per_second(rate, "tx"), "by a Writer without an engine, without notifications")
            }),
        );
        add(&mut rows, &self.notify_to_without_notify, "of that with notifications");
        rows
    }
}

fn table_size_rows(flatness: &TableSizeComparison) -> Vec<Row> {
    let batch = flatness.batch;
    let of = |sample: &TableSample| {
        let (done, future) = (count(sample.done_rows), count(sample.future_rows));
        let with = format!("with {done} DONE rows and {future} later retries, p50");
        [
            row(p50(sample.claim_us), &format!("to claim {batch} {with}")),
            row(p50(sample.settle_us), &format!("to settle {batch} {with}")),
        ]
    };
    let ratios = [("claim", flatness.claim_p50_many_to_few), ("settle", flatness.settle_p50_many_to_few)];
    let ratios = ratios.into_iter().filter_map(|(what, ratio)| Some((what, ratio?)));
    let ratios =
        ratios.map(|(what, ratio)| row(times(ratio), &format!("as long to {what} with the larger table")));
    of(&flatness.few).into_iter().chain(of(&flatness.many)).chain(ratios).collect()
}

fn snapshot_rows(held: &HeldSnapshot) -> Vec<Row> {
    let rows = count(held.rows);
    vec![
        row(p50(held.without), &format!("per claim without it, of {rows} events, p50")),
        row(p50(held.with), "per claim with it, p50"),
        row(p50(held.with_last_fifth), "per claim with it, the last fifth, p50"),
    ]
}

fn steady_rows(steady: &SteadyLoad) -> Vec<Row> {
    let p99 = |quantiles: Option<Quantiles>| quantiles.map_or_else(dash, |quantiles| micros(quantiles.p99));
    vec![
        row(counted(steady.events, "event"), &format!("in {}", counted(steady.seconds, "second"))),
        row(counted(steady.lag, "event"), "not settled at the last commit"),
        memory(steady.first_memory_bytes, "of memory after the first fifth"),
        memory(steady.last_memory_bytes, "of memory at the end"),
        row(p99(steady.first_claim_us), "per claim in the first fifth, p99"),
        row(p99(steady.last_claim_us), "per claim in the last fifth, p99"),
    ]
}

fn memory(bytes: Option<u64>, sentence: &str) -> Row {
    match bytes {
        Some(bytes) => row(format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)), sentence),
        None => row("unknown".to_owned(), sentence),
    }
}

fn add(rows: &mut Vec<Row>, ratio: &Option<Ratio>, of_what: &str) {
    rows.extend(ratio.as_ref().map(|ratio| ratio.row(of_what)));
}

fn dash() -> String {
    "-".to_owned()
}

fn p50(quantiles: Option<Quantiles>) -> String {
    quantiles.map_or_else(dash, |quantiles| micros(quantiles.p50))
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2} ×")
}
