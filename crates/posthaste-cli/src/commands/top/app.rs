//! State of the screen, and how each message changes it. Nothing here does I/O: work for the background tasks is
//! returned as an [`Effect`].

use crossterm::event::KeyEvent;
use posthaste::Timestamp;
use posthaste::admin::DeadGroup;
use tokio::time::Instant;

use super::list_cursor::Cursor;
use super::outbox_history::OutboxRow;
use super::outbox_snapshot::{DeadEvent, DeadGroupKey, Observation, OutboxSnapshot};
use crate::output::events;

/// Input of [`App::update`].
#[derive(Debug)]
pub(super) enum Message {
    Key(KeyEvent),
    /// Time passed, or the terminal was resized.
    Tick(Timestamp),
    Observed {
        source: usize,
        at: Instant,
        result: Result<Vec<Observation>, String>,
    },
    Listed {
        target: ReplayTarget,
        result: Result<Vec<DeadEvent>, String>,
    },
    Counted {
        target: ReplayTarget,
        result: Result<u64, String>,
    },
    /// Number of events replayed so far.
    Replaying(u64),
    Replayed {
        target: ReplayTarget,
        result: Result<u64, String>,
    },
}

/// Work that a message requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    /// Observe a source without waiting for its interval.
    Observe(usize),
    List(ReplayTarget),
    Count(ReplayTarget),
    /// Replay at most this many events: the number that the user confirmed.
    Replay(ReplayTarget, u64),
}

/// A group of DEAD events to replay, and the index of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplayTarget {
    pub(super) source: usize,
    pub(super) group: DeadGroupKey,
}

/// The current view, from the overview down to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Overview,
    Outbox,
    Group(ReplayTarget),
}

/// A dialog over the view. It takes every key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialog {
    Help,
    /// The events that a replay would send are being counted.
    Counting(ReplayTarget),
    /// Waits for consent to replay `count` events. `in_group` is the size of the group itself, if it still exists.
    Confirm {
        target: ReplayTarget,
        count: u64,
        in_group: Option<u64>,
    },
}

/// A source, as shown on the screen.
#[derive(Clone, Debug)]
pub(super) struct SourceInfo {
    pub(super) label: String,
    /// The name under which a replay is recorded in the audit of this source.
    pub(super) actor: String,
}

/// The last message to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusMessage {
    pub(super) text: String,
    pub(super) is_error: bool,
}

#[derive(Debug)]
pub(super) struct App {
    pub(super) sources: Vec<SourceInfo>,
    /// One row per outbox, in the order of `sources`. Written by every observation.
    pub(super) rows: Vec<OutboxRow>,
    pub(super) view: View,
    pub(super) dialog: Option<Dialog>,
    pub(super) status_message: Option<StatusMessage>,
    /// Whether the display is frozen: observations are dropped.
    pub(super) frozen: bool,
    /// Progress of the running replay: replayed and total. `None` if no replay is running.
    pub(super) replaying: Option<(u64, u64)>,
    /// Events of the group on the screen; `None` until the source has replied.
    pub(super) listed: Option<Result<Vec<DeadEvent>, String>>,
    /// Whether the events are being listed. A slow source is not asked again before it has replied.
    pub(super) listing: bool,
    pub(super) now: Timestamp,
    /// Position in the overview, the list of groups and the list of events.
    pub(super) outbox: Cursor<(usize, Option<String>)>,
    pub(super) group: Cursor<DeadGroupKey>,
    pub(super) event: Cursor<String>,
}

impl App {
    pub(super) fn new(sources: Vec<SourceInfo>, now: Timestamp) -> Self {
        let rows = sources.iter().enumerate().map(|(place, info)| OutboxRow::new(place, None, &info.label));
        Self {
            rows: rows.collect(),
            sources,
            view: View::default(),
            dialog: None,
            status_message: None,
            frozen: false,
            replaying: None,
            listed: None,
            listing: false,
            now,
            outbox: Cursor::default(),
            group: Cursor::default(),
            event: Cursor::default(),
        }
    }

    /// Applies a message. This is the only place where the state changes.
    pub(super) fn update(&mut self, message: Message) -> Option<Effect> {
        match message {
            Message::Key(key) => self.press(key),
            Message::Tick(now) => {
                self.now = now;
                None
            }
            Message::Observed { source, at, result } => self.observed(source, at, result),
            Message::Listed { target, result } => self.is_listed(&target, result),
            Message::Counted { target, result } => self.counted(target, result),
            Message::Replaying(done) => {
                self.replaying = self.replaying.map(|(_, of)| (done, of));
                None
            }
            Message::Replayed { target, result } => self.replayed(&target, result),
        }
    }

    fn observed(
        &mut self,
        source: usize,
        at: Instant,
        result: Result<Vec<Observation>, String>,
    ) -> Option<Effect> {
        if self.frozen {
            return None;
        }
        match result {
            Ok(observations) => self.take(source, at, observations),
            Err(error) => self.miss_source(source, &error),
        }
        self.follow();
        match &self.view {
            View::Group(target) if target.source == source && !self.listing => {
                self.listing = true;
                Some(Effect::List(target.clone()))
            }
            _ => None,
        }
    }

    /// A source whose outboxes are unknown gets a row of its own, which shows the error.
    fn miss_source(&mut self, source: usize, error: &str) {
        let mut rows = self.take_rows(source);
        if rows.is_empty() {
            rows.extend(self.sources.get(source).map(|info| OutboxRow::new(source, None, &info.label)));
        }
        rows.iter_mut().for_each(|row| row.fail(error.to_owned(), self.now));
        self.put_rows(source, rows);
    }

    /// Replaces the rows of a source: an outbox may be new, or gone after a reload of the configuration.
    fn take(&mut self, source: usize, at: Instant, observations: Vec<Observation>) {
        let mut before = self.take_rows(source);
        let Some(info) = self.sources.get(source) else { return };
        let rows = observations.into_iter().map(|observation| {
            let known = before.iter().position(|row| row.outbox == observation.outbox);
            let known = known.map(|at| before.swap_remove(at));
            let mut row =
                known.unwrap_or_else(|| OutboxRow::new(source, observation.outbox.clone(), &info.label));
            row.take(observation, at, self.now);
            row
        });
        let rows = rows.collect();
        self.put_rows(source, rows);
    }

    fn take_rows(&mut self, source: usize) -> Vec<OutboxRow> {
        self.rows.extract_if(.., |row| row.source == source).collect()
    }

    /// Keeps the rows in the order of their sources.
    fn put_rows(&mut self, source: usize, rows: Vec<OutboxRow>) {
        let place = self.rows.partition_point(|row| row.source < source);
        self.rows.splice(place..place, rows);
    }

    /// Moves the cursors to the new positions of their entries.
    fn follow(&mut self) {
        self.outbox.follow(&self.outboxes());
        self.group.follow(&self.groups());
    }

    pub(super) fn outboxes(&self) -> Vec<(usize, Option<String>)> {
        self.rows.iter().map(|row| (row.source, row.outbox.clone())).collect()
    }

    /// The outbox under the cursor.
    pub(super) fn row(&self) -> Option<&OutboxRow> {
        self.rows.get(self.outbox.at())
    }

    pub(super) fn snapshot(&self) -> Option<&OutboxSnapshot> {
        self.row()?.snapshot.as_ref()
    }

    pub(super) fn dead_groups(&self) -> &[DeadGroup] {
        self.snapshot().map_or(&[], |snapshot| &snapshot.groups)
    }

    /// The groups of DEAD events of the outbox under the cursor.
    pub(super) fn groups(&self) -> Vec<DeadGroupKey> {
        let outbox = self.row().and_then(|row| row.outbox.clone());
        self.dead_groups().iter().map(|group| DeadGroupKey::of(outbox.clone(), group)).collect()
    }

    /// The group to which a replay would apply.
    pub(super) fn target(&self) -> Option<ReplayTarget> {
        match &self.view {
            View::Overview => None,
            View::Outbox => {
                let group = self.groups().into_iter().nth(self.group.at())?;
                Some(ReplayTarget { source: self.row()?.source, group })
            }
            View::Group(target) => Some(target.clone()),
        }
    }

    pub(super) fn listed_ids(&self) -> Vec<String> {
        let events = self.listed.as_ref().and_then(|listed| listed.as_ref().ok());
        events.map(|events| events.iter().map(|event| event.id.clone()).collect()).unwrap_or_default()
    }

    fn is_listed(&mut self, target: &ReplayTarget, result: Result<Vec<DeadEvent>, String>) -> Option<Effect> {
        if self.view == View::Group(target.clone()) {
            (self.listed, self.listing) = (Some(result), false);
            self.event.follow(&self.listed_ids());
        }
        None
    }

    /// Ignored if the user has closed the dialog in the meantime.
    fn counted(&mut self, target: ReplayTarget, result: Result<u64, String>) -> Option<Effect> {
        if self.dialog != Some(Dialog::Counting(target.clone())) {
            return None;
        }
        self.dialog = match result {
            Ok(0) => {
                self.say("nothing to replay: none of these events is DEAD any more");
                None
            }
            Ok(count) => {
                let in_group = self.groups().iter().position(|group| *group == target.group);
                let in_group = in_group.map(|at| self.dead_groups()[at].count);
                Some(Dialog::Confirm { target, count, in_group })
            }
            Err(error) => {
                self.warn(format!("nothing was replayed: the events cannot be counted: {error}"));
                None
            }
        };
        None
    }

    fn replayed(&mut self, target: &ReplayTarget, result: Result<u64, String>) -> Option<Effect> {
        let replaying = self.replaying.take();
        match result {
            Ok(count) => {
                let actor = self.sources.get(target.source).map_or("", |info| &info.actor);
                self.say(format!("{} replayed, on record as {actor}", events(count)));
            }
            Err(error) => {
                let done = replaying.map_or(0, |(done, _)| done);
                self.warn(format!("the replay stopped after {}: {error}", events(done)));
            }
        }
        Some(Effect::Observe(target.source))
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.status_message = Some(StatusMessage { text: text.into(), is_error: false });
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.status_message = Some(StatusMessage { text: text.into(), is_error: true });
    }
}
