//! Results of `--relay`, as JSON and as text.

use std::time::Duration;

use serde::Serialize;

use super::usage::ProcessUsage;
use crate::BenchArgs;
use crate::report_format::{Setup, counted, rate, write_rows};
use crate::statistics::{Ratio, Spread, median};

/// Results of one round; the last two are in events per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelayRound {
    pub(super) start: Duration,
    pub(super) idle: ProcessUsage,
    pub(super) library: f64,
    pub(super) relay: f64,
}

/// Rates are medians of the rounds; the ratio is the median of the ratios within each round.
#[derive(Debug, Serialize)]
pub(crate) struct RelayReport {
    #[serde(flatten)]
    setup: Setup,
    binary_bytes: u64,
    start_to_first_delivery_ms: Option<Spread>,
    idle: IdleUsage,
    library_events_per_s: f64,
    relay_events_per_s: f64,
    relay_to_library: Option<Ratio>,
}

/// What an idle relay used. A figure is `None` if the system does not report it.
#[derive(Debug, Serialize)]
struct IdleUsage {
    seconds: u64,
    memory_bytes: Option<Spread>,
    cpu_percent: Option<Spread>,
}

impl RelayReport {
    pub(super) fn new(store: &'static str, args: &BenchArgs, rounds: &[RelayRound]) -> anyhow::Result<Self> {
        let rate = |of: fn(&RelayRound) -> f64| median(rounds.iter().map(of).collect()).round();
        let memory = rounds.iter().filter_map(|round| round.idle.memory_bytes);
        Ok(Self {
            setup: Setup::new(store, args),
            binary_bytes: std::fs::metadata(std::env::current_exe()?)?.len(),
            start_to_first_delivery_ms: Spread::of(
                rounds.iter().map(|round| round.start.as_secs_f64() * 1_000.0),
            ),
            idle: IdleUsage {
                seconds: args.idle,
                memory_bytes: Spread::of(memory.map(|bytes| bytes as f64)),
                cpu_percent: Spread::of(rounds.iter().filter_map(|round| round.idle.cpu_percent)),
            },
            library_events_per_s: rate(|round| round.library),
            relay_events_per_s: rate(|round| round.relay),
            relay_to_library: Ratio::of(rounds.iter().map(|round| round.relay / round.library)),
        })
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut spread = |figure: Option<&Spread>, show: fn(f64) -> String, unit: &str, what: &str| {
            rows.extend(figure.map(|spread| {
                let (lowest, highest) = (show(spread.lowest), show(spread.highest));
                let sentence = format!("{what} (rounds: {lowest} to {highest} {unit})");
                (format!("{} {unit}", show(spread.median)), sentence)
            }));
        };
        let start = self.start_to_first_delivery_ms.as_ref();
        spread(start, |ms| format!("{ms:.0}"), "ms", "from the start of a relay to its first delivery");
        let (memory, cpu) = (self.idle.memory_bytes.as_ref(), self.idle.cpu_percent.as_ref());
        spread(memory, mib, "MiB", "of memory for an idle relay");
        spread(cpu, |percent| format!("{percent:.1}"), "%", "of a processor for an idle relay");
        rows.push(rate(self.library_events_per_s, "drained by an engine in this process"));
        rows.push(rate(self.relay_events_per_s, "drained by a relay"));
        rows.extend(self.relay_to_library.as_ref().map(|ratio| ratio.row("of the engine in this process")));
        rows.push((format!("{} MiB", mib(self.binary_bytes as f64)), "for the program itself".to_owned()));
        rows
    }

    /// The report as text.
    pub(crate) fn text(&self) -> String {
        let heading = self.setup.heading(", a relay to a file", "drain");
        let mut text = format!("{heading}, {} of idling\n\n", counted(self.idle.seconds, "second"));
        write_rows(&mut text, self.rows());
        text
    }
}

fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}
