//! Row steps: splits work on many rows into statements of increasing size.
//!
//! InnoDB reads all of each row that it changes, payload included. Rows may be large, so a call for many of them begins
//! with a few. Each step commits by itself: if the caller stops waiting, finished steps stay done and the next call
//! continues from there.

/// The number of rows of the first step. Each step is four times as large as the one before.
const FIRST_STEP_ROWS: usize = 16;

/// The steps of one call.
#[derive(Debug)]
pub(super) struct RowSteps {
    /// The number of rows that the remaining steps may change.
    left: usize,
    next: usize,
    found: u64,
}

impl RowSteps {
    pub(super) fn new(limit: usize) -> Self {
        Self { left: limit, next: FIRST_STEP_ROWS, found: 0 }
    }

    /// The largest number of rows for the next step. `None` when the work is done.
    pub(super) fn next(&self) -> Option<usize> {
        Some(self.next.min(self.left)).filter(|rows| *rows > 0)
    }

    /// Records the rows that a step has changed. A step that was not full is the last one.
    pub(super) fn found(&mut self, rows: u64) {
        let limit = self.next.min(self.left);
        self.found += rows;
        self.left = if rows < limit as u64 { 0 } else { self.left - limit };
        self.next *= 4;
    }

    /// The number of rows that all steps have changed.
    pub(super) fn total(&self) -> u64 {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of the steps, and the number of rows that they changed.
    fn steps(limit: usize, mut rows: usize) -> (Vec<usize>, u64) {
        let (mut steps, mut sizes) = (RowSteps::new(limit), Vec::new());
        while let Some(next) = steps.next() {
            sizes.push(next);
            let found = next.min(rows);
            rows -= found;
            steps.found(found as u64);
        }
        (sizes, steps.total())
    }

    #[test]
    fn steps_grow_until_the_limit() {
        assert_eq!(steps(500, 1_000), (vec![16, 64, 256, 164], 500));
        assert_eq!(steps(1, 1_000), (vec![1], 1));
        assert_eq!(steps(0, 1_000), (vec![], 0));
    }

    #[test]
    fn step_that_is_not_full_is_the_last() {
        assert_eq!(steps(500, 20), (vec![16, 64], 20));
        assert_eq!(steps(500, 0), (vec![16], 0));
    }
}
