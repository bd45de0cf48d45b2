//! Output of a running demo: a live summary on a terminal, plain lines elsewhere.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use posthaste::admin::Stats;

use super::observed_counts::TallySnapshot;
use super::shop::pending;
use crate::output::Output;
use posthaste_measurements::{Quantiles, count, micros};

/// The window over which the delivery rate is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(2);

/// Destination of the narration and the summaries.
#[derive(Debug)]
pub(super) enum DemoScreen {
    /// A summary that is redrawn in place, with the narration scrolling above it.
    Live(ProgressBar),
    /// One line per second, if something has changed.
    Plain(Pipe),
    /// Only the report at the end, as JSON.
    Silent,
}

impl DemoScreen {
    pub(super) fn new(output: Output) -> Self {
        match output {
            Output::Json => Self::Silent,
            Output::Text if std::io::stdout().is_terminal() => Self::Live(live_bar()),
            Output::Text => Self::Plain(Pipe::default()),
        }
    }

    /// Prints a sentence of the narration.
    pub(super) fn say(&self, elapsed: Duration, sentence: &str) {
        let line = format!("{:>4} s  {sentence}", elapsed.as_secs());
        match self {
            Self::Live(bar) => bar.println(line),
            Self::Plain(pipe) => pipe.print(&line),
            Self::Silent => {}
        }
    }

    /// The pause between two summaries.
    pub(super) fn pause(&self) -> Duration {
        match self {
            Self::Live(_) => Duration::from_millis(200),
            Self::Plain(_) | Self::Silent => Duration::from_secs(1),
        }
    }

    pub(super) fn show(&self, summary: &Summary) {
        match self {
            Self::Live(bar) => {
                bar.set_message(summary.lines());
                bar.tick();
            }
            Self::Plain(pipe) if pipe.is_new(summary.line()) => self.say(summary.elapsed, &summary.line()),
            Self::Plain(_) | Self::Silent => {}
        }
    }

    /// Whether stdout was closed, as in `posthaste demo | head`.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Plain(pipe) if pipe.closed.load(Ordering::Relaxed))
    }

    /// Removes the live summary.
    pub(super) fn clear(&self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn live_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

/// Plain lines, for a pipe or a file.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    last: Mutex<String>,
    closed: AtomicBool,
}

impl Pipe {
    /// Does not use `println!`, which panics if stdout is closed.
    fn print(&self, line: &str) {
        if writeln!(std::io::stdout(), "{line}").is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    fn is_new(&self, line: String) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *last != line;
        *last = line;
        is_new
    }
}

/// The counts at one moment.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) snapshot: TallySnapshot,
    pub(super) stats: Stats,
    pub(super) per_second: u64,
    pub(super) elapsed: Duration,
}

impl Summary {
    fn lines(&self) -> String {
        let Self { snapshot, stats, .. } = self;
        let row = |name: &str, number: u64, rest: String| format!("  {name:<10}{:>11} {rest}", count(number));
        [
            String::new(),
            row(
                "orders",
                snapshot.committed,
                format!("committed   {} rolled back", count(snapshot.rolled_back)),
            ),
            row(
                "delivered",
                snapshot.delivered,
                format!(
                    "events      {}/s, {} of them twice",
                    count(self.per_second),
                    count(snapshot.duplicates)
                ),
            ),
            row(
                "hot path",
                snapshot.hot,
                format!("events      {} from commit", latency(snapshot.hot_latency)),
            ),
            row(
                "poller",
                snapshot.polled,
                format!("events      {}, including retries and outages", latency(snapshot.polled_latency)),
            ),
            row(
                "backlog",
                pending(stats),
                format!("pending     {} of them for a closed route", count(stats.parked)),
            ),
            row("dead", stats.dead, "events      kept for inspection".to_owned()),
            String::new(),
            format!("  {} s, Ctrl-C to stop", self.elapsed.as_secs()),
        ]
        .join("\n")
    }

    fn line(&self) -> String {
        let Self { snapshot, stats, .. } = self;
        format!(
            "{} committed, {} delivered ({}/s), {} pending, {} dead, hot {}",
            count(snapshot.committed),
            count(snapshot.delivered),
            count(self.per_second),
            count(pending(stats)),
            count(stats.dead),
            latency(snapshot.hot_latency)
        )
    }
}

fn latency(quantiles: Option<Quantiles>) -> String {
    match quantiles {
        Some(Quantiles { p50, p99, .. }) => format!("p50 {}, p99 {}", micros(p50), micros(p99)),
        None => "p50 -, p99 -".to_owned(),
    }
}

/// Deliveries per second over [`RATE_WINDOW`].
#[derive(Debug, Default)]
pub(super) struct RateWindow(VecDeque<(Instant, u64)>);

impl RateWindow {
    pub(super) fn at(&mut self, now: Instant, delivered: u64) -> u64 {
        self.0.push_back((now, delivered));
        while self.0.len() > 2 && self.0.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW)
        {
            self.0.pop_front();
        }
        let (since, before) = self.0.front().copied().unwrap_or((now, delivered));
        let seconds = now.duration_since(since).as_secs_f64();
        if seconds > 0.0 { ((delivered - before) as f64 / seconds).round() as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_last_two_seconds() {
        let mut rate = RateWindow::default();
        let start = Instant::now();
        assert_eq!(rate.at(start, 0), 0);
        assert_eq!(rate.at(start + Duration::from_secs(1), 100), 100);
        for second in 2..10 {
            rate.at(start + Duration::from_secs(second), 100);
        }
        assert_eq!(rate.at(start + Duration::from_secs(10), 100), 0);
    }
}
