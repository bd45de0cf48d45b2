//! What a database does for a foreign table: few methods, the same for PostgreSQL and MySQL.

use std::collections::{HashMap, HashSet};
use std::fmt;

use async_trait::async_trait;
use posthaste::store::{Claim, Leased, Malformed, OnDone};
use posthaste::{EventId, StoreError};

use super::filter::BindValue;
use super::resolved_layout::ResolvedLayout;
use crate::row::ReadColumns;

/// What tells a row from all others, those included that were there before it or come after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) id: EventId,
    /// The values of the key's columns, as text.
    pub(crate) parts: Vec<String>,
    /// When the row was written, as text, where the table says so. A key can be used again for another row, after a
    /// TRUNCATE for example, and the outcome of the one is not that of the other.
    pub(crate) written: Option<String>,
}

/// A row that was read to be delivered, or what cannot be read of it.
pub(crate) type ReadRow = Result<Leased, Malformed>;

/// Which of the pending keys to read. It is told first whether the lock of the table was taken just now.
pub(crate) type ChooseKeys<'a> = dyn Fn(bool, Vec<RowKey>) -> Vec<RowKey> + Send + Sync + 'a;

/// The fewest rows that are measured at once, and as many as are measured first. To measure a row a server may have to
/// read all of it, so a claim measures few rows beyond those that it takes.
const MIN_STEP_ROWS: usize = 16;

/// Steps grow by this as long as the rows are small: each is a round trip.
const STEP_GROWTH_FACTOR: usize = 4;

/// How many bytes a claim may still read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteBudget {
    bytes: usize,
    /// Nothing was read yet, and the first row is read whatever its size.
    is_untouched: bool,
}

impl ByteBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, is_untouched: true }
    }

    /// Splits rows, in their order, into those that fit and those that are left.
    pub(crate) fn split(self, keys: Vec<RowKey>) -> BudgetSplit {
        let (step, largest, parts) = (MIN_STEP_ROWS, 0, SplitKeys::default());
        BudgetSplit { budget: self, rest: keys.into_iter(), step, largest, parts }
    }

    /// What is left of it after this.
    pub(crate) fn after(self, read: &RowsRead) -> Self {
        let is_untouched = self.is_untouched && read.rows.is_empty();
        Self { bytes: self.bytes.saturating_sub(read.bytes), is_untouched }
    }
}

/// Rows that are being split: measured step by step, and none after the step in which one does not fit.
#[derive(Debug)]
pub(crate) struct BudgetSplit {
    budget: ByteBudget,
    rest: std::vec::IntoIter<RowKey>,
    step: usize,
    /// The size of the largest row so far.
    largest: usize,
    parts: SplitKeys,
}

impl BudgetSplit {
    /// The rows to measure next; none when it is known what fits.
    pub(crate) fn next_step(&mut self) -> Option<Vec<RowKey>> {
        if !self.parts.left.is_empty() || self.rest.as_slice().is_empty() {
            return None;
        }
        Some(self.rest.by_ref().take(self.step).collect())
    }

    /// Takes the sizes of the rows of a step. Rows without a size are gone. The next step has as many rows as would fit
    /// if all were as large as the largest so far.
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

    /// What fits, and what is left; rows that were not measured are among the latter.
    pub(crate) fn end(self) -> SplitKeys {
        let mut parts = self.parts;
        parts.left.extend(self.rest);
        parts
    }
}

/// The keys of a claim, by whether their rows fit the budget.
#[derive(Debug, Default)]
pub(crate) struct SplitKeys {
    pub(crate) fitting: Vec<RowKey>,
    /// The size of those that fit.
    pub(crate) bytes: usize,
    pub(crate) left: Vec<RowKey>,
}

/// What a claim has read of the rows that it chose.
#[derive(Debug, Default)]
pub(crate) struct RowsRead {
    pub(crate) rows: Vec<(RowKey, ReadRow)>,
    /// The size of them all.
    pub(crate) bytes: usize,
    /// Those that did not fit; the others are gone.
    pub(crate) left: Vec<RowKey>,
}

/// A failed attempt, for a table that counts them.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) key: RowKey,
    pub(crate) error: String,
    /// The attempt at which the row is given up.
    pub(crate) max_attempts: u32,
}

/// What the table says of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptCount {
    pub(crate) attempts: u32,
    pub(crate) is_dead: bool,
}

/// A foreign table.
///
/// # Contract
///
/// One session holds the lock of the whole table. What only its holder may do runs in that session, so that the
/// lock is there for as long as the statement runs; such calls answer none where somebody else has the lock, and
/// change nothing. Every write-back changes pending rows only, and none that was written at another time than its
/// [`RowKey`] says.
#[async_trait]
pub(crate) trait ForeignTable: fmt::Debug + Send + Sync {
    /// Takes the lock if it is free, reads up to `max_keys` pending keys, oldest first, and the rows of those that
    /// are chosen, as far as the budget reaches. None while another process has the lock.
    async fn claim(
        &self,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, StoreError>;

    /// Whether the lock is still ours.
    async fn leads(&self) -> Result<bool, StoreError>;

    /// These were delivered. Answers those whose rows say so now; anybody may call it.
    async fn settle_delivered(
        &self,
        keys: &[RowKey],
        on_done: OnDone,
    ) -> Result<HashSet<EventId>, StoreError>;

    /// Writes nothing, as if something had been delivered: whether the server can be reached, and takes it.
    async fn write_nothing(&self) -> Result<(), StoreError>;

    /// Counts failed attempts and decides, on the table's own count, which rows are given up.
    async fn count_failures(
        &self,
        failures: &[FailedAttempt],
    ) -> Result<Option<HashMap<EventId, AttemptCount>>, StoreError>;

    /// Gives rows up, each with its reason. Answers those that were pending.
    async fn give_up(&self, rows: &[(RowKey, String)]) -> Result<Option<HashSet<EventId>>, StoreError>;

    /// Runs a statement that only reads, and returns its rows.
    async fn query(&self, caller: Caller, query: BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError>;

    /// Changes rows as an operator or a purge wants it; returns how many.
    async fn change(&self, caller: Caller, query: BoundQuery) -> Result<u64, StoreError>;

    /// The layout, with the types of its columns.
    fn resolved(&self) -> &ResolvedLayout;

    /// The table's name as it stands in statements.
    fn name(&self) -> &str;

    /// The table's name as the database's catalogue is asked for it.
    fn bare_name(&self) -> BindValue;

    async fn close(&self);
}

/// Who runs a statement. Each has connections of its own, and so has what an operator changes: the engine never waits
/// for operators, and a change never waits for questions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    Engine,
    Operator,
}

/// A statement and what is bound to it.
#[derive(Debug)]
pub(crate) struct BoundQuery {
    pub(crate) text: String,
    pub(crate) values: Vec<BindValue>,
}

impl BoundQuery {
    pub(crate) fn new(text: String) -> Self {
        Self { text, values: Vec::new() }
    }
}

/// A row that a query returned, whatever the database.
pub(crate) type QueryRow = dyn ReadColumns + Send + Sync;

/// What tests of both databases ask of a table.
#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use posthaste::store::{Owner, Purge, Purgeable, Settle, Settled, Settlement, Store as _, Verdict};
    use tokio::time::{interval, timeout};

    use super::*;
    use crate::foreign::ForeignTableStore;

    fn claim(owner: &Owner) -> Claim<'_> {
        Claim::new(owner, Duration::from_secs(30), 1)
    }

    /// Divides rows of these sizes; returns how many fit, are left, and were measured in each step.
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
    fn claim_does_not_measure_every_row_that_waits() {
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
    fn rows_that_are_gone_are_neither_taken_nor_left() {
        let key = |id: &str| RowKey { id: id.into(), parts: Vec::new(), written: None };
        let mut split = ByteBudget::new(10).split(["a", "b", "c"].map(key).into());
        let keys = split.next_step().expect("a step");
        split.measured(keys, &[("a".into(), 4), ("c".into(), 7)].into());
        let parts = split.end();
        assert_eq!((parts.fitting, parts.left, parts.bytes), (vec![key("a")], vec![key("c")], 4));
    }

    /// Whether a claim finds that the lock is this table's.
    pub(crate) async fn leads(table: &dyn ForeignTable) -> bool {
        let owner = Owner::from("tester");
        let claim = claim(&owner);
        table.claim(&claim, 1, ByteBudget::new(usize::MAX), &|_, keys| keys).await.expect("a claim").is_some()
    }

    /// Waits until the lock is this table's.
    pub(crate) async fn takes_over(table: &dyn ForeignTable) {
        let took_over = async {
            let mut look = interval(Duration::from_millis(50));
            while !leads(table).await {
                look.tick().await;
            }
        };
        timeout(Duration::from_secs(20), took_over).await.expect("it takes over");
    }

    /// The row of a key that is used again between the look at the keys and the look at the rows is not taken for the
    /// one that had it before.
    pub(crate) async fn row_of_another_time_is_not_read(table: &dyn ForeignTable) {
        let owner = Owner::from("tester");
        for (written, rows) in [(Some("2000-01-01 00:00:00"), 0), (None, 1)] {
            let choose = |_, mut keys: Vec<RowKey>| {
                let written = written.map(str::to_owned);
                keys.iter_mut().for_each(|key| key.written = written.clone().or(key.written.take()));
                keys
            };
            let read =
                table.claim(&claim(&owner), 1, ByteBudget::new(usize::MAX), &choose).await.expect("a claim");
            assert_eq!(read.expect("the lock").rows.len(), rows, "{written:?}");
        }
        table.close().await;
    }

    /// The engine of a table with a row that waits goes on, and so do operators' changes, while more operators ask this
    /// question than there are connections for them.
    pub(crate) async fn slow_questions_hold_nothing_up(table: impl ForeignTable + 'static, question: &str) {
        let store = ForeignTableStore::new(table, true);
        let ask = || store.table().query(Caller::Operator, BoundQuery::new(question.to_owned()));
        let questions = join_all((0..8).map(|_| ask()));
        let work = async {
            let owner = Owner::from("tester");
            let claimed = store.claim(&claim(&owner)).await.expect("a claim");
            assert!(store.oldest_pending(None).await.expect("the engine's own question").is_some());
            let verdict = Verdict::Done;
            let lease = claimed.events[0].lease.clone();
            let settlements = [Settlement::new(lease, verdict)];
            let settle = Settle::new(&owner, &settlements);
            assert_eq!(store.settle(&settle).await.expect("a settlement"), [Settled::Done]);
            let (what, older_than, archive) = (Purgeable::Done, Duration::ZERO, false);
            let purge = Purge::new(what, older_than, 1).with_archive(archive);
            assert_eq!(store.purge_batch(&purge).await.expect("a purge of the engine's"), 1);
            let purged = posthaste::Admin::purge(&store, &purge, "ann").await;
            assert_eq!(purged.expect("an operator's change"), 0);
        };
        // The questions are asked first: what is behind them gets no connection of theirs before they end.
        tokio::select! {
            biased;
            _ = questions => panic!("the questions are slower than everything else"),
            () = work => {}
        }
        store.close().await;
    }
}
