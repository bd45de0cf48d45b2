//! Which measurement is under way, when a person is watching.

use indicatif::ProgressBar;

use crate::output::Output;
use crate::progress;

/// So many rows of a table that is filled count as one step.
const ROWS_PER_STEP: u64 = 10_000;

pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(output: Output, measurements: u64, rows: u64) -> Self {
        Self(progress::bar(output, Some(measurements + rows / ROWS_PER_STEP), "preparing"))
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
