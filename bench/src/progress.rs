//! Which measurement is under way, when a person is watching.

use indicatif::{ProgressBar, ProgressStyle};

/// So many rows of a table that is filled count as one step.
const ROWS_PER_STEP: u64 = 10_000;

pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar on stderr; none if nobody watches.
    pub(super) fn new(is_watched: bool, measurements: u64, rows: u64) -> Self {
        if !is_watched {
            return Self::hidden();
        }
        let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(measurements + rows / ROWS_PER_STEP);
        Self(bar.with_style(style).with_message("preparing"))
    }

    /// For nobody.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Names what is measured now.
    pub(super) fn begin(&self, name: &'static str) {
        self.0.set_message(name);
        self.0.inc(1);
    }

    /// There are so many rows in the table, `added` more than before.
    pub(super) fn filled(&self, rows: u64, added: u64) {
        self.0.set_message("filling the table");
        self.0.inc(rows / ROWS_PER_STEP - (rows - added) / ROWS_PER_STEP);
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
