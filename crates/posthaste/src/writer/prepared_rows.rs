//! Rows prepared for one INSERT: events that passed hooks and limits, and the receipt that the statement's result turns
//! into.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::receipt::Receipt;
use super::writer_core::WriterCore;
use crate::engine::Written;
use crate::error::WriteError;
use crate::event::{Event, EventId};
use crate::store::{Lease, LeaseToken, Owner};

/// Whether a write can learn that it was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Directly in a transaction, or in a savepoint whose end a [`Ledger`](super::Ledger) records.
    Transaction,
    /// In a savepoint that other code may roll back without reporting it. The rows are not leased, and their receipt
    /// only wakes the poller.
    ForeignSavepoint,
}

/// One row to insert.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewRow {
    /// The event.
    pub event: Event,
    /// The delay that the store adds to its clock for `available_at`; `None` if the row is due immediately.
    pub delay: Option<Duration>,
    /// The lease with which the row is born; `None` leaves the row to any poller.
    pub lease: Option<NewLease>,
}

impl NewRow {
    /// A row that is due when its event says, not leased.
    pub fn new(event: Event) -> Self {
        Self { delay: event.delay(), event, lease: None }
    }

    /// Sets the delay, by the store's clock. Default: the event's own.
    #[must_use]
    pub fn with_delay(self, delay: impl Into<Option<Duration>>) -> Self {
        Self { delay: delay.into(), ..self }
    }

    /// Sets the lease with which the row is born. Default: none.
    #[must_use]
    pub fn with_lease(self, lease: impl Into<Option<NewLease>>) -> Self {
        Self { lease: lease.into(), ..self }
    }
}

/// The lease of a row that is born leased. It counts from the *statement's* clock, not from the start of the
/// transaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewLease {
    /// Becomes `locked_by`.
    pub owner: Owner,
    /// Becomes `lease_token`.
    pub token: LeaseToken,
    /// Added to the statement's clock, becomes `available_at`.
    pub duration: Duration,
}

impl NewLease {
    /// The lease of this owner, under this token, for this duration.
    pub fn new(owner: Owner, token: LeaseToken, duration: Duration) -> Self {
        Self { owner, token, duration }
    }
}

/// Rows that passed hooks and limits, ready for one INSERT.
#[derive(Debug)]
pub struct Prepared {
    core: WriterCore,
    rows: Vec<NewRow>,
    repeated: Vec<EventId>,
    asked_at: Instant,
}

impl WriterCore {
    /// Runs `before_write`, checks every event, and decides which rows are born leased. Call it right before the INSERT
    /// is sent, because the leases count from this instant.
    ///
    /// Without events no hook is called.
    pub fn prepare(&self, events: Vec<Event>, scope: Scope) -> Result<Prepared, WriteError> {
        let events = match events.is_empty() {
            true => events,
            false => self.parts.hooks.before_write(events).map_err(WriteError::Hook)?,
        };
        for event in &events {
            self.parts.limits.check(event.parts())?;
        }
        let (events, repeated) = split_repeated(events);
        let token = LeaseToken::random();
        let rows = events.into_iter().map(|event| self.new_row(event, token, scope)).collect();
        Ok(Prepared { core: self.clone(), rows, repeated, asked_at: Instant::now() })
    }

    fn new_row(&self, event: Event, token: LeaseToken, scope: Scope) -> NewRow {
        let delay = event.delay();
        let hot_path =
            self.parts.hot_path.as_ref().filter(|_| scope == Scope::Transaction && delay.is_none());
        let lease = hot_path
            .and_then(|hot_path| hot_path.lease_for(&event))
            .map(|(owner, duration)| NewLease::new(owner, token, duration));
        NewRow::new(event).with_delay(delay).with_lease(lease)
    }
}

impl Prepared {
    /// The rows to insert, in order, in one statement.
    pub fn rows(&self) -> &[NewRow] {
        &self.rows
    }

    /// Whether there is nothing to insert: no events were passed, or a hook suppressed the write.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The same rows without their leases. For a driver that learns only from its INSERT that it ran in a [foreign
    /// savepoint](Scope::ForeignSavepoint). The driver removes the leases from the inserted rows itself.
    pub fn unleased(mut self) -> Self {
        self.rows.iter_mut().for_each(|row| row.lease = None);
        self
    }

    /// The INSERT is done. `seqs` has one entry per row: the row's `seq`, or `None` if the id existed and nothing was
    /// inserted.
    pub fn written(self, seqs: &[Option<i64>]) -> Receipt {
        debug_assert_eq!(seqs.len(), self.rows.len(), "one entry per row");
        let mut duplicates = self.repeated;
        let mut written = Vec::with_capacity(self.rows.len());
        for (row, seq) in self.rows.into_iter().zip(seqs) {
            match *seq {
                None => duplicates.push(row.event.id().clone()),
                Some(seq) => {
                    let lease = row.lease.map(|lease| Lease::new(row.event.id().clone(), seq, lease.token));
                    written.push(Written { event: row.event, seq, delay: row.delay, lease });
                }
            }
        }
        if let (Some(hot_path), false) = (&self.core.parts.hot_path, duplicates.is_empty()) {
            hot_path.duplicates(duplicates.len());
        }
        let receipt = Receipt::new(self.core, written, duplicates, self.asked_at);
        receipt.after_write();
        receipt
    }
}

/// Removes repeats: an id that is twice in one batch is written once, as it would be in two batches.
fn split_repeated(events: Vec<Event>) -> (Vec<Event>, Vec<EventId>) {
    if events.len() < 2 {
        return (events, Vec::new());
    }
    let mut seen = HashSet::with_capacity(events.len());
    let (unique, repeated): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| seen.insert(event.id().clone()));
    (unique, repeated.iter().map(|event| event.id().clone()).collect())
}
