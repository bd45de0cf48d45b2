//! Results of `--publish`, as JSON and as text.

use serde::Serialize;

use crate::BenchArgs;
use crate::report_format::{Setup, counted, rate, write_rows};
use crate::statistics::{Ratio, median};
use posthaste_measurements::count;
use posthaste_stores::SecretUrl;

/// Results of one round: events per second, and memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishRound {
    pub(super) bare: f64,
    pub(super) nothing: f64,
    pub(super) relay: f64,
    pub(super) memory: MemoryUse,
}

impl PublishRound {
    /// The rate of a relay that would take each event from the store and then publish it, one after the other.
    fn one_after_the_other(&self) -> f64 {
        1.0 / (1.0 / self.bare + 1.0 / self.nothing)
    }
}

/// Resident memory of this process in bytes: after a tenth of the events, and after the last.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MemoryUse {
    pub(super) early: Option<u64>,
    pub(super) late: Option<u64>,
}

/// Rates are medians of the rounds; ratios are medians of the ratios within each round.
#[derive(Debug, Serialize)]
pub(crate) struct PublishReport {
    #[serde(flatten)]
    setup: Setup,
    publish: String,
    workers: usize,
    bare_events_per_s: f64,
    nothing_events_per_s: f64,
    relay_events_per_s: f64,
    relay_to_bare: Option<Ratio>,
    relay_to_one_after_the_other: Option<Ratio>,
    memory_bytes: Option<MemoryUse>,
}

impl PublishReport {
    pub(super) fn new(
        store: &'static str,
        args: &BenchArgs,
        url: &SecretUrl,
        rounds: &[PublishRound],
    ) -> Self {
        let rate = |of: fn(&PublishRound) -> f64| median(rounds.iter().map(of).collect()).round();
        Self {
            setup: Setup::new(store, args),
            publish: url.to_string(),
            workers: args.workers,
            bare_events_per_s: rate(|round| round.bare),
            nothing_events_per_s: rate(|round| round.nothing),
            relay_events_per_s: rate(|round| round.relay),
            relay_to_bare: Ratio::of(rounds.iter().map(|round| round.relay / round.bare)),
            relay_to_one_after_the_other: Ratio::of(
                rounds.iter().map(|round| round.relay / round.one_after_the_other()),
            ),
            memory_bytes: rounds.last().map(|round| round.memory),
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![
            rate(self.bare_events_per_s, "by the client library alone"),
            rate(self.nothing_events_per_s, "from the store to a destination that does nothing"),
            rate(self.relay_events_per_s, "by the relay, from the store to the broker"),
        ];
        rows.extend(self.relay_to_bare.as_ref().map(|ratio| ratio.row("of the client library")));
        let both = self.relay_to_one_after_the_other.as_ref();
        rows.extend(both.map(|ratio| ratio.row("of the two, one after the other")));
        if let Some(MemoryUse { early: Some(early), late: Some(late) }) = self.memory_bytes {
            let mib = |bytes: u64| format!("{} MiB", count(bytes >> 20));
            rows.push((mib(early), "of memory after a tenth of the events".to_owned()));
            rows.push((mib(late), "of memory after all of them".to_owned()));
        }
        rows
    }

    /// The report as text.
    pub(crate) fn text(&self) -> String {
        let heading = self.setup.heading(&format!(" to {}", self.publish), "measurement");
        let mut text = format!("{heading}, {}\n\n", counted(self.workers as u64, "worker"));
        write_rows(&mut text, self.rows());
        text
    }
}
