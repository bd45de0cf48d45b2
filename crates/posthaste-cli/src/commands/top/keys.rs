//! Key bindings.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Dialog, Effect, View};

/// Entries that PgUp and PgDn move.
const PAGE_ENTRIES: isize = 10;

/// Every key, for the help.
pub(super) const KEY_HELP: &[(&str, &str)] = &[
    ("↑ ↓  k j", "choose; PgUp, PgDn, Home and End go further"),
    ("Enter →", "look closer: an outbox, then a group of DEAD events"),
    ("Esc ←", "back"),
    ("r", "replay the chosen group, after confirmation"),
    ("p", "freeze the screen, and resume it"),
    ("?", "this help"),
    ("q Ctrl-C", "quit"),
];

impl App {
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Some(Effect::Quit);
        }
        if let Some(dialog) = self.dialog.take() {
            return self.close_dialog(dialog, key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?') => self.dialog = Some(Dialog::Help),
            KeyCode::Char('p') => self.frozen = !self.frozen,
            KeyCode::Char('r') => return self.ask_to_replay(),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE_ENTRIES),
            KeyCode::PageDown => self.step(PAGE_ENTRIES),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => return self.enter(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h') => self.back(),
            _ => {}
        }
        None
    }

    /// Only `y` is consent, and only after the question was shown in full.
    fn close_dialog(&mut self, dialog: Dialog, key: KeyCode) -> Option<Effect> {
        match (dialog, key) {
            (Dialog::Confirm { target, count, .. }, KeyCode::Char('y')) => {
                self.replaying = Some((0, count));
                self.status_message = None;
                return Some(Effect::Replay(target, count));
            }
            (Dialog::Confirm { .. } | Dialog::Counting(_), _) => self.say("nothing was replayed"),
            (Dialog::Help, _) => {}
        }
        None
    }

    fn ask_to_replay(&mut self) -> Option<Effect> {
        if self.replaying.is_some() {
            self.warn("a replay is running: wait until it ends");
            return None;
        }
        let Some(target) = self.target() else {
            self.say(match self.view {
                View::Overview => "choose an outbox and press Enter; there r replays the chosen dead group",
                _ => "this outbox has no DEAD events",
            });
            return None;
        };
        self.dialog = Some(Dialog::Counting(target.clone()));
        Some(Effect::Count(target))
    }

    fn step(&mut self, by: isize) {
        match self.view {
            View::Overview => {
                self.outbox.step(&self.outboxes(), by);
                self.group = Default::default();
                self.group.follow(&self.groups());
            }
            View::Outbox => self.group.step(&self.groups(), by),
            View::Group(_) => self.event.step(&self.listed_ids(), by),
        }
    }

    fn enter(&mut self) -> Option<Effect> {
        self.status_message = None;
        match self.view {
            View::Overview => {
                self.view = View::Outbox;
                None
            }
            View::Outbox => {
                let target = self.target()?;
                self.view = View::Group(target.clone());
                (self.listed, self.listing, self.event) = (None, true, Default::default());
                Some(Effect::List(target))
            }
            View::Group(_) => None,
        }
    }

    fn back(&mut self) {
        self.status_message = None;
        self.view = match self.view {
            View::Overview | View::Outbox => View::Overview,
            View::Group(_) => View::Outbox,
        };
    }
}
