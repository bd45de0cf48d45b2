//! Results of `--layout`, as JSON and as text.

use serde::Serialize;

use crate::BenchArgs;
use crate::foreign_preset::ForeignPreset;
use crate::report_format::{Setup, rate, write_rows};
use crate::statistics::{Ratio, median};

/// Results of one round, in events per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignRound {
    pub(super) own: f64,
    pub(super) foreign: f64,
}

/// Rates are medians of the rounds; the ratio is the median of the ratios within each round.
#[derive(Debug, Serialize)]
pub(crate) struct ForeignReport {
    #[serde(flatten)]
    setup: Setup,
    layout: &'static str,
    workers: usize,
    own_events_per_s: f64,
    layout_events_per_s: f64,
    layout_to_own: Option<Ratio>,
}

impl ForeignReport {
    pub(super) fn new(
        store: &'static str,
        args: &BenchArgs,
        preset: ForeignPreset,
        rounds: &[ForeignRound],
    ) -> Self {
        let rate = |of: fn(&ForeignRound) -> f64| median(rounds.iter().map(of).collect()).round();
        Self {
            setup: Setup::new(store, args),
            layout: preset.name(),
            workers: args.workers,
            own_events_per_s: rate(|round| round.own),
            layout_events_per_s: rate(|round| round.foreign),
            layout_to_own: Ratio::of(rounds.iter().map(|round| round.foreign / round.own)),
        }
    }

    /// The report as text.
    pub(crate) fn text(&self) -> String {
        let what = format!(", a table of the layout {}", self.layout);
        let mut text = self.setup.heading(&what, "drain") + "\n\n";
        let mut rows = vec![
            rate(self.own_events_per_s, "drained from a table of Posthaste's own"),
            rate(self.layout_events_per_s, "drained from the table of the layout"),
        ];
        rows.extend(self.layout_to_own.as_ref().map(|ratio| ratio.row("of a table of Posthaste's own")));
        write_rows(&mut text, rows);
        text
    }
}
