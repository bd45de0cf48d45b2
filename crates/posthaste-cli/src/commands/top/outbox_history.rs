//! One outbox over time: its last snapshot, its rates and its state.

use std::collections::VecDeque;
use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Finding, RowObservations, Stats, Tolerance};
use tokio::time::Instant;

use super::outbox_snapshot::{Observation, OutboxSnapshot, RouteSnapshot, RouteState};
use crate::commands::status::rates::Rates;

/// Rates are averages over this window: long enough to be steady, short enough to show a change.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// One row of the overview.
#[derive(Clone, Debug)]
pub(super) struct OutboxRow {
    /// Index of the source.
    pub(super) source: usize,
    /// The name of the outbox, if the source has several.
    pub(super) outbox: Option<String>,
    /// The name on the screen.
    pub(super) label: String,
    /// The last snapshot; kept when an observation fails.
    pub(super) snapshot: Option<OutboxSnapshot>,
    /// Why the outbox cannot be read now, and since when.
    pub(super) error: Option<(String, Timestamp)>,
    /// The snapshots of the last [`RATE_WINDOW`], the oldest first. Cleared by an error.
    history: VecDeque<(Instant, OutboxSnapshot)>,
}

/// Events per second; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) out: Option<f64>,
    pub(super) into: Option<f64>,
}

/// State of an outbox. The highest one that applies is shown, so the order of the variants matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutboxState {
    /// No reply yet.
    Asking,
    Well,
    Paused,
    Dead,
    Unreachable,
    Late,
    Silent,
}

impl OutboxState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Asking => "waiting",
            Self::Well => "ok",
            Self::Paused => "paused",
            Self::Dead => "has dead",
            Self::Unreachable => "closed",
            Self::Late => "late",
            Self::Silent => "no reply",
        }
    }
}

impl OutboxRow {
    pub(super) fn new(source: usize, outbox: Option<String>, label: &str) -> Self {
        let label = match &outbox {
            Some(outbox) => format!("{label} {outbox}"),
            None => label.to_owned(),
        };
        Self { source, outbox, label, snapshot: None, error: None, history: VecDeque::new() }
    }

    /// Adds an observation.
    pub(super) fn take(&mut self, observation: Observation, at: Instant, now: Timestamp) {
        match observation.snapshot {
            Ok(snapshot) => {
                self.error = None;
                self.remember(&snapshot, at);
                self.snapshot = Some(snapshot);
            }
            Err(error) => self.fail(error, now),
        }
    }

    /// Records an error. Snapshots before and after a gap are not compared.
    pub(super) fn fail(&mut self, error: String, now: Timestamp) {
        let since = self.error.take().map_or(now, |(_, since)| since);
        self.error = Some((error, since));
        self.history.clear();
    }

    fn remember(&mut self, snapshot: &OutboxSnapshot, at: Instant) {
        self.history.push_back((at, snapshot.clone()));
        while self.history.get(1).is_some_and(|(then, _)| at.duration_since(*then) >= RATE_WINDOW) {
            self.history.pop_front();
        }
    }

    /// The first and the last snapshot of the window, and the time between them.
    fn window(&self) -> Option<(&OutboxSnapshot, &OutboxSnapshot, Duration)> {
        let ((from, before), (to, after)) = (self.history.front()?, self.history.back()?);
        let elapsed = to.duration_since(*from);
        (!elapsed.is_zero()).then_some((before, after, elapsed))
    }

    /// Deliveries and writes per second. A relay counts its deliveries; for a store they are computed from the counts
    /// of rows.
    pub(super) fn flow(&self) -> Flow {
        let Some((before, after, elapsed)) = self.window() else { return Flow::default() };
        let rates = Rates::between(&before.stats, &after.stats, elapsed);
        let counted = per_second(before.delivered, after.delivered, elapsed);
        Flow { out: counted.or(rates.delivered_per_second), into: rates.written_per_second }
    }

    /// Calls of the destination of a route per second.
    pub(super) fn calls(&self, route: &RouteSnapshot) -> Option<f64> {
        let (before, _, elapsed) = self.window()?;
        let before = before.routes.iter().find(|other| other.name == route.name)?;
        per_second(before.calls, route.calls, elapsed)
    }

    pub(super) fn state(&self) -> OutboxState {
        let Some(snapshot) = &self.snapshot else {
            return if self.error.is_some() { OutboxState::Silent } else { OutboxState::Asking };
        };
        let any = |state: RouteState| snapshot.routes.iter().any(|route| route.state == state);
        let signs = [
            (self.error.is_some(), OutboxState::Silent),
            (late(&snapshot.stats).is_some(), OutboxState::Late),
            (any(RouteState::Unreachable) || any(RouteState::Closed), OutboxState::Unreachable),
            (snapshot.stats.dead > 0, OutboxState::Dead),
            (any(RouteState::Paused), OutboxState::Paused),
        ];
        signs.into_iter().find_map(|(is, state)| is.then_some(state)).unwrap_or(OutboxState::Well)
    }
}

/// The finding about the oldest event, if it has been pending too long.
pub(super) fn late(stats: &Stats) -> Option<Finding> {
    let mut oldest = Stats::default();
    oldest.oldest_pending = stats.oldest_pending;
    RowObservations::default().findings(&oldest, &Tolerance::default()).into_iter().next()
}

/// `None` after a restart of the relay, because its counters start from zero.
fn per_second(before: Option<u64>, after: Option<u64>, elapsed: Duration) -> Option<f64> {
    let events = after?.checked_sub(before?)?;
    Some(events as f64 / elapsed.as_secs_f64())
}
