//! The report at the end of a demo: the counts, and whether they add up.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use posthaste::admin::Stats;
use serde::Serialize;

use super::observed_counts::TallySnapshot;
use super::shop::pending;
use crate::output;
use posthaste_measurements::{count, micros};

/// The counts: `observed` by the service and the destinations, `dead` and `pending` from the store.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    seed: u64,
    seconds: f64,
    #[serde(flatten)]
    observed: TallySnapshot,
    dead: u64,
    pending: u64,
    /// Events that an earlier run left pending in this file.
    inherited: u64,
    /// Path of the database; `None` if it was removed.
    database: Option<PathBuf>,
    /// Discrepancies between the counts. Each one is a bug.
    problems: Vec<String>,
}

/// Options of the run, and the state of the store at its start.
#[derive(Debug)]
pub(super) struct RunStart {
    pub(super) seed: u64,
    pub(super) stats: Stats,
    pub(super) database: Option<PathBuf>,
    /// Whether all events must be delivered or dead at the end.
    pub(super) once: bool,
}

impl DemoReport {
    pub(super) fn new(start: RunStart, snapshot: TallySnapshot, end: &Stats, elapsed: Duration) -> Self {
        Self {
            seed: start.seed,
            seconds: (elapsed.as_secs_f64() * 1e3).round() / 1e3,
            observed: snapshot,
            dead: end.dead,
            pending: pending(end),
            inherited: pending(&start.stats),
            problems: find_problems(&start, snapshot, end),
            database: start.database,
        }
    }

    pub(super) fn adds_up(&self) -> bool {
        self.problems.is_empty()
    }

    fn rows(&self) -> Vec<(String, String)> {
        let observed = &self.observed;
        let mut rows = vec![
            (count(observed.committed), "committed: order and event in one transaction".to_owned()),
            (count(observed.rolled_back), "rolled back: none of their events was delivered".to_owned()),
            (
                count(observed.delivered),
                format!("delivered: {} hot, {} by the poller", count(observed.hot), count(observed.polled)),
            ),
            (count(observed.duplicates), "delivered twice".to_owned()),
            (count(self.dead), "dead: kept for inspection and replay".to_owned()),
            (count(self.pending), "pending".to_owned()),
        ];
        if self.inherited > 0 {
            rows.insert(0, (count(self.inherited), "left over from an earlier run of this file".to_owned()));
        }
        let latencies = [
            ("on the hot path", observed.hot_latency),
            ("through the poller, outage included", observed.polled_latency),
        ];
        for (path, latency) in latencies {
            let Some(latency) = latency else { continue };
            rows.push((micros(latency.p50), format!("from commit to handler (p50), {path}")));
            rows.push((micros(latency.p99), format!("from commit to handler (p99), {path}")));
        }
        rows
    }

    fn verdict(&self) -> String {
        if self.adds_up() {
            let waits = if self.pending > 0 { ", is pending" } else { "" };
            return format!(
                "It adds up: every event that committed was delivered{waits} or is dead,\n\
                 and no event of a transaction that rolled back was delivered."
            );
        }
        format!("IT DOES NOT ADD UP, and that is a bug:\n  {}", self.problems.join("\n  "))
    }

    fn try_next(&self) -> String {
        let program = super::program();
        let Some(database) = &self.database else {
            return format!(
                "The database was removed. To keep it and look into it:\n  \
                 {program} demo --once --dir ./demo\n  \
                 {program} status --store sqlite://demo/{}",
                super::DATABASE_FILE
            );
        };
        let store = format!("--store sqlite://{}", database.display());
        format!(
            "The database was kept. To look into it:\n  \
             {program} status {store}\n  \
             {program} dead list {store}"
        )
    }
}

/// A page of 80 columns.
impl output::Report for DemoReport {
    fn text(&self) -> String {
        let mut text = format!("{:.1} seconds of an order service, seed {}\n\n", self.seconds, self.seed);
        for (number, what) in self.rows() {
            let _ = writeln!(text, "  {number:>9}  {what}");
        }
        let _ = write!(text, "\n{}\n\n{}", self.verdict(), self.try_next());
        text
    }
}

/// Compares the counts: every committed event must be delivered, dead or pending.
fn find_problems(start: &RunStart, snapshot: TallySnapshot, end: &Stats) -> Vec<String> {
    let mut problems = Vec::new();
    let owed = snapshot.committed + pending(&start.stats);
    let died = end.dead.saturating_sub(start.stats.dead);
    let found = snapshot.delivered + died + pending(end);
    if found != owed {
        problems.push(format!(
            "{owed} events were to be delivered; {} were, {died} died and {} are pending: {} {}",
            snapshot.delivered,
            pending(end),
            found.abs_diff(owed),
            if found < owed { "are missing" } else { "are too many" }
        ));
    }
    if snapshot.invented > 0 {
        problems.push(format!("{} events were delivered that had been rolled back", snapshot.invented));
    }
    if start.once && pending(end) > 0 {
        problems.push(format!("{} events are still pending", pending(end)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALLY: TallySnapshot = TallySnapshot {
        committed: 10,
        rolled_back: 2,
        delivered: 9,
        duplicates: 0,
        invented: 0,
        hot: 9,
        polled: 0,
        hot_latency: None,
        polled_latency: None,
    };

    fn problems(snapshot: TallySnapshot, dead: u64, new: u64, once: bool) -> usize {
        let start = RunStart { seed: 1, stats: Stats::default(), database: None, once };
        find_problems(&start, snapshot, &stats(dead, new)).len()
    }

    fn stats(dead: u64, new: u64) -> Stats {
        let mut stats = Stats::default();
        (stats.dead, stats.new) = (dead, new);
        stats
    }

    #[test]
    fn committed_event_must_be_delivered_dead_or_pending() {
        assert_eq!(problems(TALLY, 1, 0, true), 0);
        assert_eq!(problems(TALLY, 0, 0, true), 1);
        assert_eq!(problems(TALLY, 2, 0, true), 1);
        assert_eq!(problems(TALLY, 0, 1, false), 0);
        assert_eq!(problems(TALLY, 0, 1, true), 1);
    }

    #[test]
    fn rolled_back_event_must_not_be_delivered() {
        assert_eq!(problems(TallySnapshot { invented: 1, ..TALLY }, 1, 0, true), 1);
    }

    #[test]
    fn events_of_an_earlier_run_count_too() {
        let start = RunStart { seed: 1, stats: stats(5, 3), database: None, once: true };
        let snapshot = TallySnapshot { delivered: 12, ..TALLY };
        assert!(find_problems(&start, snapshot, &stats(6, 0)).is_empty());
    }
}
