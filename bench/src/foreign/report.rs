//! What draining a foreign table came to: for programs as JSON, for people as a table.

use serde::Serialize;

use super::preset::ForeignPreset;
use crate::BenchArgs;
use crate::figures::count;
use crate::statistics::{Ratio, median};
use crate::store_report_text::{counted, rate, write_rows};

/// What one round measured, in events per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignRound {
    pub(super) own: f64,
    pub(super) foreign: f64,
}

/// Rates are medians of the rounds; the ratio is the median of the ratios within each round.
#[derive(Debug, Serialize)]
pub(crate) struct ForeignReport {
    store: &'static str,
    layout: &'static str,
    events: u64,
    rounds: u64,
    workers: usize,
    payload_bytes: usize,
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
            store,
            layout: preset.name(),
            events: args.events,
            rounds: args.rounds,
            workers: args.workers,
            payload_bytes: args.payload_bytes,
            own_events_per_s: rate(|round| round.own),
            layout_events_per_s: rate(|round| round.foreign),
            layout_to_own: Ratio::of(rounds.iter().map(|round| round.foreign / round.own)),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{} store, a table of the layout {}, medians of {}\n{} of {} bytes per drain\n\n",
            self.store,
            self.layout,
            counted(self.rounds, "round"),
            counted(self.events, "event"),
            count(self.payload_bytes as u64),
        );
        let mut rows = vec![
            rate(self.own_events_per_s, "drained from a table of Posthaste's own"),
            rate(self.layout_events_per_s, "drained from the table of the layout"),
        ];
        rows.extend(self.layout_to_own.as_ref().map(|ratio| ratio.row("of a table of Posthaste's own")));
        write_rows(&mut text, rows);
        text
    }
}
