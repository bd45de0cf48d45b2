//! The byte limit of a claim on a foreign table, and the choice of the rows that fit into it.

use std::collections::HashMap;

use posthaste::EventId;

use super::row_key::{RowKey, RowsRead};

/// The smallest number of rows whose sizes are read in one step; the first step reads this many. To measure a row the
/// server may have to read all of it, so a claim measures few rows beyond those that it takes.
const MIN_STEP_ROWS: usize = 16;

/// Growth of the steps while rows are small, because each step is a round trip.
const STEP_GROWTH_FACTOR: usize = 4;

/// The number of bytes that a claim may still read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteBudget {
    bytes: usize,
    /// True until the first row was read. That row is read whatever its size, or it would wait for ever.
    is_untouched: bool,
}

impl ByteBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, is_untouched: true }
    }

    /// Splits rows, in their order, into those that fit and the rest.
    pub(crate) fn split(self, keys: Vec<RowKey>) -> BudgetSplit {
        let (step, largest, parts) = (MIN_STEP_ROWS, 0, SplitKeys::default());
        BudgetSplit { budget: self, rest: keys.into_iter(), step, largest, parts }
    }

    /// The budget that is left after these rows were read.
    pub(crate) fn after(self, read: &RowsRead) -> Self {
        let is_untouched = self.is_untouched && read.rows.is_empty();
        Self { bytes: self.bytes.saturating_sub(read.bytes), is_untouched }
    }
}

/// A split in progress. Rows are measured step by step, and the step with the first row that does not fit is the last.
#[derive(Debug)]
pub(crate) struct BudgetSplit {
    budget: ByteBudget,
    rest: std::vec::IntoIter<RowKey>,
    step: usize,
    /// The size of the largest row so far, in bytes.
    largest: usize,
    parts: SplitKeys,
}

impl BudgetSplit {
    /// The rows to measure next. `None` once it is known which rows fit.
    pub(crate) fn next_step(&mut self) -> Option<Vec<RowKey>> {
        if !self.parts.left.is_empty() || self.rest.as_slice().is_empty() {
            return None;
        }
        Some(self.rest.by_ref().take(self.step).collect())
    }

    /// Takes the sizes of the rows of a step. Rows without a size no longer exist. The next step has as many rows as
    /// would fit if all were as large as the largest so far.
    pub(crate) fn measured(&mut self, keys: Vec<RowKey>, sizes: &HashMap<EventId, usize>) {
        let Self { budget, parts, .. } = self;
        self.largest = sizes.values().copied().fold(self.largest, usize::max);
        for key in keys {
            let Some(size) = sizes.get(&key.id) else { continue };
            let bytes = parts.bytes.saturating_add(*size);
            let is_first = budget.is_untouched && parts.fitting.is_empty();
            if parts.left.is_empty() && (is_first || bytes <= budget.bytes) {
                parts.bytes = bytes;
                parts.fitting.push(key);
            } else {
                parts.left.push(key);
            }
        }
        let fitting = budget.bytes.saturating_sub(parts.bytes) / self.largest.max(1);
        self.step = fitting.clamp(MIN_STEP_ROWS, STEP_GROWTH_FACTOR * self.step);
    }

    /// The result. Rows that were not measured count as not fitting.
    pub(crate) fn end(self) -> SplitKeys {
        let mut parts = self.parts;
        parts.left.extend(self.rest);
        parts
    }
}

/// The keys of a claim, split by whether their rows fit the budget.
#[derive(Debug, Default)]
pub(crate) struct SplitKeys {
    pub(crate) fitting: Vec<RowKey>,
    /// The total size of the fitting rows, in bytes.
    pub(crate) bytes: usize,
    pub(crate) left: Vec<RowKey>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits rows of these sizes. Returns the numbers of fitting rows, of other rows, and of rows measured in each
    /// step.
    fn divide(budget: usize, sizes: &[usize]) -> (usize, usize, Vec<usize>) {
        let key = |n: usize| RowKey { id: EventId::from(n.to_string()), parts: Vec::new(), written: None };
        let mut split = ByteBudget::new(budget).split((0..sizes.len()).map(key).collect());
        let (mut rest, mut steps) = (sizes, Vec::new());
        while let Some(keys) = split.next_step() {
            let (some, others) = rest.split_at(keys.len());
            let sizes = keys.iter().map(|key| key.id.clone()).zip(some.iter().copied()).collect();
            steps.push(keys.len());
            split.measured(keys, &sizes);
            rest = others;
        }
        let parts = split.end();
        assert_eq!(parts.bytes, sizes[..parts.fitting.len()].iter().sum::<usize>());
        (parts.fitting.len(), parts.left.len(), steps)
    }

    #[test]
    fn claim_does_not_measure_every_pending_row() {
        const MIB: usize = 1 << 20;
        assert_eq!(divide(16 * MIB, &[MIB; 500]), (16, 484, vec![16, 16]), "what is behind the last is left");
        assert_eq!(divide(16 * MIB, &[20 * MIB; 500]), (1, 499, vec![16]), "the first one whatever its size");
        assert_eq!(
            divide(16 * MIB, &[100; 500]),
            (500, 0, vec![16, 64, 256, 164]),
            "small rows in a few steps"
        );
        assert_eq!(divide(usize::MAX, &[0; 20]), (20, 0, vec![16, 4]));
        let small_then_large: Vec<usize> = [[100; 250], [MIB; 250]].concat();
        assert_eq!(divide(16 * MIB, &small_then_large), (265, 235, vec![16, 64, 256]));
    }

    #[test]
    fn deleted_rows_are_neither_taken_nor_left() {
        let key = |id: &str| RowKey { id: id.into(), parts: Vec::new(), written: None };
        let mut split = ByteBudget::new(10).split(["a", "b", "c"].map(key).into());
        let keys = split.next_step().expect("a step");
        split.measured(keys, &[("a".into(), 4), ("c".into(), 7)].into());
        let parts = split.end();
        assert_eq!((parts.fitting, parts.left, parts.bytes), (vec![key("a")], vec![key("c")], 4));
    }
}
