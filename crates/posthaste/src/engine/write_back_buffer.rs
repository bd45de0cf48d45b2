//! The write-back buffer: settlements, parks and releases that wait to be written back to the store.
//!
//! Bounded: workers wait while a whole batch of settlements is waiting or being written. Releases beyond their bound
//! are dropped, and those leases lapse by themselves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Settings;
use crate::mutex::lock;
use crate::store::{Lease, Settlement};

/// The most leases that wait to be released.
const MAX_RELEASES: usize = 10_000;

/// Filled by workers, the poller and the hot path; emptied by the settler.
#[derive(Debug, Default)]
pub(crate) struct WriteBackBuffer {
    inner: Mutex<Inner>,
    /// Wakes the settler.
    work: Notify,
    /// Wakes workers that wait for room.
    room: Notify,
    /// Wakes all that wait until nothing is left to write.
    quiet: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Settlements that wait. At most one batch together with `writing`, not counting what a cancelled task hands over
    /// and what has to be written again.
    settlements: Vec<Settlement>,
    /// Leases to park, by route index.
    parks: BTreeMap<usize, Vec<Lease>>,
    /// Leases to release, each not before its instant.
    releases: Vec<(Instant, Lease)>,
    /// Settlements that the store could not take, each to be written again not before its instant. Bounded by the
    /// number of held events.
    again: Vec<(Instant, Settlement)>,
    /// `Some` while a round is being written: how many settlements it has.
    writing: Option<usize>,
}

impl Inner {
    /// How many more settlements fit. Those that wait and those being written share one batch.
    fn room(&self) -> usize {
        Settings::SETTLE_BATCH_ROWS.saturating_sub(self.settlements.len() + self.writing.unwrap_or(0))
    }

    fn is_quiet(&self, now: Instant) -> bool {
        let releasing = self.releases.iter().any(|(at, _)| *at <= now);
        let settling = !self.settlements.is_empty() || !self.again.is_empty();
        self.writing.is_none() && !releasing && !settling && self.parks.is_empty()
    }
}

/// Settlements that did not fit into the buffer yet. Dropping this hands them over regardless of the bound.
struct Overflow<'a> {
    buffer: &'a WriteBackBuffer,
    settlements: Vec<Settlement>,
}

impl Overflow<'_> {
    fn hand_over_what_fits(&mut self) {
        let mut inner = self.buffer.lock();
        let fits = inner.room().min(self.settlements.len());
        inner.settlements.extend(self.settlements.drain(..fits));
        drop(inner);
        if fits > 0 {
            self.buffer.work.notify_one();
        }
    }
}

impl Drop for Overflow<'_> {
    fn drop(&mut self) {
        if !self.settlements.is_empty() {
            self.buffer.lock().settlements.append(&mut self.settlements);
            self.buffer.work.notify_one();
        }
    }
}

/// What the settler writes in one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) settlements: Vec<Settlement>,
    /// By route index.
    pub(crate) parks: BTreeMap<usize, Vec<Lease>>,
    pub(crate) releases: Vec<Lease>,
}

impl Round {
    pub(crate) fn is_empty(&self) -> bool {
        self.settlements.is_empty() && self.parks.is_empty() && self.releases.is_empty()
    }
}

impl WriteBackBuffer {
    /// Hands over settlements, as many as fit, and waits with the rest. If the future is dropped while it waits, the
    /// rest is handed over regardless of the bound, so that no settlement is lost.
    pub(crate) async fn settle(&self, settlements: Vec<Settlement>) {
        let mut overflow = Overflow { buffer: self, settlements };
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            overflow.hand_over_what_fits();
            if overflow.settlements.is_empty() {
                return;
            }
            room.await;
        }
    }

    /// Hands over events whose route is closed.
    pub(crate) fn park(&self, route: usize, leases: Vec<Lease>) {
        if !leases.is_empty() {
            self.lock().parks.entry(route).or_default().extend(leases);
            self.work.notify_one();
        }
    }

    /// Hands over leases to release, not before the given instant. Beyond the bound they are left to lapse.
    pub(crate) fn release(&self, leases: Vec<Lease>, not_before: Instant) {
        let mut inner = self.lock();
        let room = MAX_RELEASES.saturating_sub(inner.releases.len());
        inner.releases.extend(leases.into_iter().take(room).map(|lease| (not_before, lease)));
        drop(inner);
        self.work.notify_one();
    }

    /// Hands over settlements that have to be written again, not before the given instant.
    pub(crate) fn settle_again(&self, settlements: Vec<Settlement>, not_before: Instant) {
        self.lock().again.extend(settlements.into_iter().map(|settlement| (not_before, settlement)));
        self.work.notify_one();
    }

    /// Whether settlements have to be written again.
    pub(crate) fn has_again(&self) -> bool {
        !self.lock().again.is_empty()
    }

    /// Waits until there is something to write, and returns it.
    pub(crate) async fn next_round(&self) -> Round {
        loop {
            let work = self.work.notified();
            tokio::pin!(work);
            work.as_mut().enable();
            let round = self.take(Instant::now());
            if !round.is_empty() {
                return round;
            }
            match self.next_due() {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, work).await;
                }
                None => work.await,
            }
        }
    }

    /// What may be written at `now`: up to one batch of settlements, all parks, and the releases that are due.
    /// Settlements to write again are part of that batch once they are due.
    pub(crate) fn take(&self, now: Instant) -> Round {
        let mut inner = self.lock();
        let again = inner.again.extract_if(.., |(at, _)| *at <= now).map(|(_, settlement)| settlement);
        let again: Vec<Settlement> = again.collect();
        inner.settlements.extend(again);
        let batch = inner.settlements.len().min(Settings::SETTLE_BATCH_ROWS);
        let settlements = inner.settlements.drain(..batch).collect();
        let (due, later) = std::mem::take(&mut inner.releases).into_iter().partition(|(at, _)| *at <= now);
        inner.releases = later;
        let due: Vec<(Instant, Lease)> = due;
        let something = batch > 0 || !due.is_empty() || !inner.parks.is_empty();
        inner.writing = something.then_some(batch);
        Round {
            settlements,
            parks: std::mem::take(&mut inner.parks),
            releases: due.into_iter().map(|(_, lease)| lease).collect(),
        }
    }

    /// The last round was written.
    pub(crate) fn written(&self) {
        self.lock().writing = None;
        self.room.notify_waiters();
        self.quiet.notify_waiters();
    }

    /// Waits until nothing is left to write but releases that are not due yet.
    pub(crate) async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            tokio::pin!(quiet);
            quiet.as_mut().enable();
            if self.is_quiet() {
                return;
            }
            quiet.await;
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.lock().is_quiet(Instant::now())
    }

    fn next_due(&self) -> Option<Instant> {
        let inner = self.lock();
        let releases = inner.releases.iter().map(|(at, _)| *at);
        releases.chain(inner.again.iter().map(|(at, _)| *at)).min()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}
