//! The driver of the memory store: a connection with transactions, savepoints, and the faults that servers have.

use std::collections::HashSet;

use super::MemoryStore;
use super::row::MemoryRow;
use crate::error::{CommitError, StoreError};
use crate::event::EventId;
use crate::writer::NewRow;

/// A connection to a [`MemoryStore`].
///
/// Nothing of a transaction is visible before it commits. A transaction that is dropped unfinished is rolled back.
///
/// Two open transactions may both insert the same id, because there are no locks here. The second to commit keeps the
/// row of the first, and its own insert has no effect.
#[derive(Debug)]
pub struct MemoryConnection {
    store: MemoryStore,
    open: Option<Transaction>,
    fault: Option<CommitFault>,
    /// Whether the next INSERT fails.
    refuses: bool,
}

/// How a COMMIT can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitFault {
    /// The server rolls back and reports it.
    RolledBack,
    /// The server commits, and its reply is lost.
    AnswerLostApplied,
    /// The connection breaks before the server commits.
    AnswerLostNotApplied,
}

#[derive(Debug, Default)]
struct Transaction {
    /// Rows in the order of their inserts; a commit moves them to the table.
    staged: Vec<MemoryRow>,
    /// The ids of `staged`, so that an id is inserted once per transaction.
    ids: HashSet<EventId>,
    /// The length of `staged` when each open savepoint began, outermost first.
    savepoints: Vec<usize>,
    /// Set by a failed statement: every further statement fails, and COMMIT stores nothing.
    aborted: bool,
}

impl MemoryConnection {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store, open: None, fault: None, refuses: false }
    }

    /// Opens a transaction. Refused if one is open already.
    pub async fn begin(&mut self) -> Result<(), StoreError> {
        if self.open.is_some() {
            return Err(failure("a transaction is open already: use a savepoint"));
        }
        self.open = Some(Transaction::default());
        Ok(())
    }

    /// Inserts rows into the open transaction. Returns their `seq`s, in order; `None` for an id that is already in the
    /// table or in this transaction.
    pub async fn insert(&mut self, rows: &[NewRow]) -> Result<Vec<Option<i64>>, StoreError> {
        let transaction = working(&mut self.open)?;
        if std::mem::take(&mut self.refuses) {
            transaction.aborted = true;
            return Err(failure("the row is refused"));
        }
        let now = self.store.now();
        let mut table = self.store.table();
        let insert = |new: &NewRow| {
            let id = new.event.id();
            if table.contains(id) || !transaction.ids.insert(id.clone()) {
                return None;
            }
            let seq = table.take_seq();
            transaction.staged.push(MemoryRow::new(seq, new, now));
            Some(seq)
        };
        Ok(rows.iter().map(insert).collect())
    }

    /// Commits. For an [aborted](Self::abort) transaction it returns `Ok` and stores nothing, as PostgreSQL does.
    pub async fn commit(&mut self) -> Result<(), CommitError> {
        self.commit_and_prove().map(|_| ())
    }

    /// Rolls back: none of the rows is stored.
    pub async fn rollback(&mut self) -> Result<(), StoreError> {
        self.open.take().map(|_| ()).ok_or(StoreError::NoTransaction)
    }

    /// Opens a savepoint in the transaction, or in the innermost savepoint.
    pub async fn savepoint(&mut self) -> Result<(), StoreError> {
        let transaction = working(&mut self.open)?;
        transaction.savepoints.push(transaction.staged.len());
        Ok(())
    }

    /// Undoes what was written since the innermost savepoint, and ends it. This also recovers an aborted transaction.
    pub async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        let depth = self.depth();
        if depth < 2 {
            return Err(failure("no savepoint is open"));
        }
        self.undo_to_depth(depth - 1);
        Ok(())
    }

    /// Ends the innermost savepoint. Its rows belong to the transaction or savepoint around it.
    pub async fn release_savepoint(&mut self) -> Result<(), StoreError> {
        let transaction = working(&mut self.open)?;
        transaction.savepoints.pop().map(|_| ()).ok_or_else(|| failure("no savepoint is open"))
    }

    /// Zero outside a transaction, one in it, plus one for each savepoint.
    pub fn depth(&self) -> usize {
        self.open.as_ref().map_or(0, |transaction| 1 + transaction.savepoints.len())
    }

    /// Aborts the transaction, as a failed statement does in PostgreSQL: every further statement fails, and COMMIT
    /// returns `Ok` but stores nothing. For tests.
    pub fn abort(&mut self) {
        if let Some(transaction) = &mut self.open {
            transaction.aborted = true;
        }
    }

    /// Makes the next COMMIT on this connection fail in this way. For tests.
    pub fn fail_next_commit(&mut self, fault: CommitFault) {
        self.fault = Some(fault);
    }

    /// Makes the next INSERT on this connection fail and abort the transaction, as a constraint of the service does in
    /// PostgreSQL. For tests.
    pub fn fail_next_insert(&mut self) {
        self.refuses = true;
    }

    /// Refuses a connection to another store.
    pub(super) fn expect(&self, store: &MemoryStore) -> Result<(), StoreError> {
        match std::sync::Arc::ptr_eq(&self.store.0, &store.0) {
            true => Ok(()),
            false => Err(StoreError::OtherDatabase {
                outbox: "one memory store".to_owned(),
                connection: "another memory store".to_owned(),
            }),
        }
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.open.as_ref().is_some_and(|transaction| transaction.aborted)
    }

    /// Commits. Returns which rows are in the table now.
    pub(super) fn commit_and_prove(&mut self) -> Result<HashSet<i64>, CommitError> {
        let fault = self.fault.take();
        let Some(transaction) = self.open.take() else {
            return Err(CommitError::Unknown(StoreError::NoTransaction));
        };
        match fault {
            None => Ok(self.apply(transaction)),
            Some(CommitFault::RolledBack) => {
                Err(CommitError::RolledBack(failure("the server rolled the transaction back")))
            }
            Some(CommitFault::AnswerLostApplied) => {
                self.apply(transaction);
                Err(CommitError::Unknown(failure("the connection broke")))
            }
            Some(CommitFault::AnswerLostNotApplied) => {
                Err(CommitError::Unknown(failure("the connection broke")))
            }
        }
    }

    /// Rolls back savepoints, innermost first, until `depth` levels are open.
    pub(super) fn undo_to_depth(&mut self, depth: usize) {
        let Some(transaction) = &mut self.open else { return };
        let Some(&mark) = transaction.savepoints.get(depth.saturating_sub(1)) else { return };
        transaction.savepoints.truncate(depth.saturating_sub(1));
        for row in transaction.staged.drain(mark..) {
            transaction.ids.remove(row.event.id());
        }
        transaction.aborted = false;
    }

    fn apply(&self, transaction: Transaction) -> HashSet<i64> {
        if transaction.aborted || transaction.staged.is_empty() {
            return HashSet::new();
        }
        let now = self.store.now();
        let mut stored = HashSet::with_capacity(transaction.staged.len());
        let mut claimable = false;
        let mut table = self.store.table();
        for row in transaction.staged {
            let (seq, free) = (row.seq, row.claimable_at() <= now);
            if table.add(row) {
                stored.insert(seq);
                claimable |= free;
            }
        }
        drop(table);
        if claimable {
            self.store.0.wake.notify();
        }
        stored
    }
}

/// The open transaction, unless it is aborted.
fn working(open: &mut Option<Transaction>) -> Result<&mut Transaction, StoreError> {
    match open {
        None => Err(StoreError::NoTransaction),
        Some(transaction) if transaction.aborted => {
            Err(failure("the transaction is aborted: roll it back and repeat it"))
        }
        Some(transaction) => Ok(transaction),
    }
}

pub(super) fn failure(text: &'static str) -> StoreError {
    StoreError::backend("memory", text)
}
