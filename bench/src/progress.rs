//! Progress bar that names the current measurement.

use indicatif::ProgressBar;
use posthaste_measurements::progress_bar;

/// Rows that count as one step while a table is filled.
const ROWS_PER_STEP: u64 = 10_000;

pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar on stderr, hidden unless a person is watching.
    pub(super) fn new(is_watched: bool, measurements: u64, rows: u64) -> Self {
        Self(progress_bar(is_watched, Some(measurements + rows / ROWS_PER_STEP), "preparing"))
    }

    /// A hidden bar.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Shows the name of the next measurement.
    pub(super) fn begin(&self, name: &'static str) {
        self.0.set_message(name);
        self.0.inc(1);
    }

    /// Shows that the table has `rows` rows, `added` of them new.
    pub(super) fn filled(&self, rows: u64, added: u64) {
        self.0.set_message("filling the table");
        self.0.inc(rows / ROWS_PER_STEP - (rows - added) / ROWS_PER_STEP);
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
