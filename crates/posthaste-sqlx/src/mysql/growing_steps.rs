//! Work on many rows, in steps.
//!
//! InnoDB reads the whole of each row that it changes, payload included. Rows may be large, so a call for many of them
//! begins with a few. Each step stands for itself: when the caller stops waiting, what was done stays done, and the
//! next call goes on from there.

/// The rows of the first step. Each step has four times as many as the one before.
const FIRST_STEP_ROWS: usize = 16;

/// The steps of one call.
#[derive(Debug)]
pub(super) struct RowSteps {
    /// The most rows of the steps that are left.
    left: usize,
    next: usize,
    found: u64,
}

impl RowSteps {
    pub(super) fn new(limit: usize) -> Self {
        Self { left: limit, next: FIRST_STEP_ROWS, found: 0 }
    }

    /// The most rows of the next step. `None` when there is nothing left to do.
    pub(super) fn next(&self) -> Option<usize> {
        Some(self.next.min(self.left)).filter(|rows| *rows > 0)
    }

    /// The step has found so many rows. If it might have had more, there are no more.
    pub(super) fn found(&mut self, rows: u64) {
        let asked = self.next.min(self.left);
        self.found += rows;
        self.left = if rows < asked as u64 { 0 } else { self.left - asked };
        self.next *= 4;
    }

    /// The rows of all steps.
    pub(super) fn total(&self) -> u64 {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps that were asked for, and the rows that were found.
    fn steps(limit: usize, mut rows: usize) -> (Vec<usize>, u64) {
        let (mut steps, mut asked) = (RowSteps::new(limit), Vec::new());
        while let Some(next) = steps.next() {
            asked.push(next);
            let found = next.min(rows);
            rows -= found;
            steps.found(found as u64);
        }
        (asked, steps.total())
    }

    #[test]
    fn steps_grow_until_the_limit() {
        assert_eq!(steps(500, 1_000), (vec![16, 64, 256, 164], 500));
        assert_eq!(steps(1, 1_000), (vec![1], 1));
        assert_eq!(steps(0, 1_000), (vec![], 0));
    }

    #[test]
    fn step_that_finds_fewer_is_the_last() {
        assert_eq!(steps(500, 20), (vec![16, 64], 20));
        assert_eq!(steps(500, 0), (vec![16], 0));
    }
}
