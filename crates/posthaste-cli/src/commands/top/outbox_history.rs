//! One outbox over time: its last snapshot, its rates, and whether anything is wrong.

use std::collections::VecDeque;
use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Finding, RowObservations, Stats, Tolerance};
use tokio::time::Instant;

use super::outbox_snapshot::{Observation, OutboxSnapshot, RouteSnapshot, RouteState};
use crate::commands::status::rates::Rates;

/// Rates are those of so long: long enough not to jump, short enough to see a change.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// One line of the overview.
#[derive(Clone, Debug)]
pub(super) struct OutboxRow {
    /// Which source, by its place.
    pub(super) source: usize,
    /// Its name there, if the source has several.
    pub(super) outbox: Option<String>,
    /// As people know it.
    pub(super) label: String,
    /// The last snapshot that could be taken; an error does not clear it.
    pub(super) snapshot: Option<OutboxSnapshot>,
    /// Why it cannot be looked at now, and since when.
    pub(super) error: Option<(String, Timestamp)>,
    history: VecDeque<(Instant, OutboxSnapshot)>,
}

/// Events per second; none for what nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) out: Option<f64>,
    pub(super) into: Option<f64>,
}

/// How an outbox is, the worst that is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutboxState {
    /// Nobody has answered yet.
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
            Self::Asking => "asking",
            Self::Well => "ok",
            Self::Paused => "paused",
            Self::Dead => "has dead",
            Self::Unreachable => "closed",
            Self::Late => "late",
            Self::Silent => "no answer",
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

    /// Takes in an observation.
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

    /// It cannot be looked at. What comes after a gap is not compared with what was before it.
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

    /// The first and the last snapshot of the window, and the seconds between them.
    fn window(&self) -> Option<(&OutboxSnapshot, &OutboxSnapshot, Duration)> {
        let ((from, before), (to, after)) = (self.history.front()?, self.history.back()?);
        let elapsed = to.duration_since(*from);
        (!elapsed.is_zero()).then_some((before, after, elapsed))
    }

    /// A relay counts what it delivers; otherwise the counts of rows have to tell.
    pub(super) fn flow(&self) -> Flow {
        let Some((before, after, elapsed)) = self.window() else { return Flow::default() };
        let rates = Rates::between(&before.stats, &after.stats, elapsed);
        let counted = per_second(before.delivered, after.delivered, elapsed);
        Flow { out: counted.or(rates.delivered_per_second), into: rates.written_per_second }
    }

    /// How often the destination of a route is called per second.
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

/// What there is to say about the oldest event, if it has waited for too long.
pub(super) fn late(stats: &Stats) -> Option<Finding> {
    let mut oldest = Stats::default();
    oldest.oldest_pending = stats.oldest_pending;
    RowObservations::default().findings(&oldest, &Tolerance::default()).into_iter().next()
}

/// A relay that was restarted counts from zero again.
fn per_second(before: Option<u64>, after: Option<u64>, elapsed: Duration) -> Option<f64> {
    let events = after?.checked_sub(before?)?;
    Some(events as f64 / elapsed.as_secs_f64())
}
