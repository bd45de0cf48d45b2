//! The settler: writes settlements to the store, many in one call.
//!
//! Group commit: while one call is under way, the next settlements collect. So an idle system needs no timer, and
//! batches are large under load. While settlements cannot be written, no worker starts another event, because a store
//! outage must not turn the queue into duplicates.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::EngineState;
use super::write_back_buffer::Round;
use crate::config::Mode;
use crate::error::StoreError;
use crate::event::EventId;
use crate::store::{Lease, LeaseToken, Release, Settle, Settled, Settlement, Verdict};

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long a settlement waits for its next try if its shard of the store is down.
const UNKNOWN_RETRY_DELAY: Duration = Duration::from_secs(1);
/// After this many failures a batch is halved.
const HALVE_AFTER_FAILURES: u32 = 2;
/// After this many failures a single settlement is written without its error text.
const DROP_TEXT_AFTER_FAILURES: u32 = 4;
/// From this many failures of a single settlement on, each failure is followed by a test whether the store settles
/// another event. The settlement is given up when two tests in a row succeed.
const GIVE_UP_AFTER_FAILURES: u32 = 12;

/// Runs until `stop` is cancelled, then writes what is left.
pub(crate) async fn run(engine: Arc<EngineState>, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased; // so that a simulation can be repeated
            round = engine.write_back.next_round() => write(&engine, round).await,
            () = stop.cancelled() => return flush(&engine).await,
        }
    }
}

async fn flush(engine: &EngineState) {
    loop {
        // Releases of dropped receipts are written now, too, although their time has not come.
        let round = engine.write_back.take(Instant::now() + Duration::from_secs(3600));
        if round.is_empty() {
            return;
        }
        write(engine, round).await;
        if engine.write_back.has_again() {
            tokio::time::sleep(FIRST_RETRY_DELAY).await;
        }
    }
}

async fn write(engine: &EngineState, round: Round) {
    settle(engine, round.settlements).await;
    for (route, leases) in round.parks {
        engine.park(route, &leases).await;
        engine.finished(&leases);
    }
    if !round.releases.is_empty() {
        let release = Release::new(&engine.owner, &round.releases);
        if engine.call("release", engine.store.release(&release)).await.is_ok_and(|released| released > 0) {
            engine.poll_notifier.notify();
        }
    }
    engine.write_back.written();
}

/// Settles until everything is written or no longer worth it. A batch that fails again is halved and tried last, so
/// that one settlement that the store cannot take does not keep others from being written.
async fn settle(engine: &EngineState, settlements: Vec<Settlement>) {
    let mut batches = vec![Batch::new(settlements, 0)];
    while let Some(batch) = batches.pop() {
        if batch.settlements.is_empty() {
            continue;
        }
        if write_batch(engine, &batch.settlements).await {
            continue;
        }
        engine.queue.set_starts_paused(true);
        let mut batch = batch.failed_again(engine).await;
        tokio::time::sleep(pause_after(batch.failures)).await;
        batch.settlements = still_worth_it(engine, batch.settlements);
        batches.splice(0..0, batch.smaller());
    }
    engine.queue.set_starts_paused(false);
}

async fn write_batch(engine: &EngineState, settlements: &[Settlement]) -> bool {
    engine.metrics.settle_batch.record(settlements.len() as f64);
    match call_settle(engine, settlements).await {
        Ok(results) => {
            engine.queue.set_starts_paused(false);
            let unknown = settled(engine, settlements, &results);
            write_again(engine, unknown);
            true
        }
        Err(_) => {
            tracing::warn!(
                outbox = %engine.settings.name,
                events = settlements.len(),
                "outcomes could not be written back; no delivery starts until the store accepts them"
            );
            false
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    (FIRST_RETRY_DELAY * (1 << failures.saturating_sub(1).min(10))).min(MAX_RETRY_DELAY)
}

/// Settlements that are written together, and how often that failed.
struct Batch {
    settlements: Vec<Settlement>,
    failures: u32,
    /// Whether the last test showed that the store settles another event.
    store_works: bool,
}

impl Batch {
    fn new(settlements: Vec<Settlement>, failures: u32) -> Self {
        Self { settlements, failures, store_works: false }
    }

    /// Counts a failure. A single settlement that failed often is given up if the store could settle another event both
    /// before and after the last failure: then the store refuses this settlement.
    async fn failed_again(mut self, engine: &EngineState) -> Self {
        self.failures += 1;
        if self.settlements.len() == 1 && self.failures >= GIVE_UP_AFTER_FAILURES {
            let works = can_settle(engine).await;
            if works && self.store_works {
                self.give_up(engine);
            }
            self.store_works = works;
        }
        self
    }

    /// The batches for the next try. After the first failure this is the whole batch again, after the second its two
    /// halves. A single settlement that keeps failing loses its error text, because a store refuses that text more
    /// often than anything else.
    fn smaller(mut self) -> Vec<Batch> {
        match self.settlements.len() {
            0 => Vec::new(),
            1 if self.failures >= DROP_TEXT_AFTER_FAILURES => {
                self.settlements[0].verdict.forget_text();
                vec![self]
            }
            len @ 2.. if self.failures >= HALVE_AFTER_FAILURES => {
                let half = self.settlements.split_off(len / 2);
                vec![
                    Batch::new(half, HALVE_AFTER_FAILURES),
                    Batch::new(self.settlements, HALVE_AFTER_FAILURES),
                ]
            }
            _ => vec![self],
        }
    }

    /// Leaves the event to its lease. It is delivered again after the lease has lapsed.
    fn give_up(&mut self, engine: &EngineState) {
        for settlement in self.settlements.drain(..) {
            tracing::error!(
                outbox = %engine.settings.name,
                event_id = %settlement.lease.id,
                "the store refuses the outcome of this event; it will be delivered again"
            );
            engine.finished([&settlement.lease]);
        }
    }
}

/// Whether the store works: settles an event that does not exist.
async fn can_settle(engine: &EngineState) -> bool {
    let lease = Lease::new(EventId::uuid_v7(), -1, LeaseToken::random());
    let verdict = Verdict::Deferred { delay: Duration::ZERO };
    call_settle(engine, &[Settlement::new(lease, verdict)]).await.is_ok()
}

async fn call_settle(engine: &EngineState, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
    let on_done = engine.settings.purge.on_done;
    let request = Settle::new(&engine.owner, settlements).with_on_done(on_done);
    engine.call("settle", engine.store.settle(&request)).await
}

/// "Delivered" is always worth writing. Any other settlement is worth it only while the lease lasts, because another
/// owner has the event afterwards.
fn still_worth_it(engine: &EngineState, settlements: Vec<Settlement>) -> Vec<Settlement> {
    let now = Instant::now();
    let (keep, given_up): (Vec<_>, Vec<_>) = settlements.into_iter().partition(|settlement| {
        matches!(settlement.verdict, Verdict::Done) || engine.inflight.holds(&settlement.lease, now)
    });
    engine.finished(given_up.iter().map(|settlement| &settlement.lease));
    keep
}

/// Records the results. Returns the settlements that are not written yet.
fn settled(engine: &EngineState, settlements: &[Settlement], results: &[Settled]) -> Vec<Settlement> {
    let both = || settlements.iter().zip(results);
    let known = || both().filter(|(_, result)| **result != Settled::Unknown);
    known().for_each(|(settlement, result)| record(engine, settlement, result));
    engine.finished(known().map(|(settlement, _)| &settlement.lease));
    both()
        .filter(|(_, result)| **result == Settled::Unknown)
        .map(|(settlement, _)| settlement.clone())
        .collect()
}

/// Writes these settlements again later, because their shard of the store is down. Everything else continues.
fn write_again(engine: &EngineState, settlements: Vec<Settlement>) {
    if settlements.is_empty() {
        return;
    }
    tracing::warn!(
        outbox = %engine.settings.name,
        events = settlements.len(),
        "a shard of the store is down; the outcomes of its events are written back when it is up again"
    );
    engine.write_back.settle_again(still_worth_it(engine, settlements), Instant::now() + UNKNOWN_RETRY_DELAY);
}

/// Counts the result of an event and remembers when it is due again.
fn record(engine: &EngineState, settlement: &Settlement, result: &Settled) {
    let metrics = &engine.metrics;
    match (result, &settlement.verdict) {
        (Settled::Done, _) => metrics.success.increment(1),
        (Settled::Retry { delay, .. }, _) => {
            metrics.failure.increment(1);
            engine.retry_timer.add(Instant::now() + *delay);
        }
        (Settled::Waiting { .. }, Verdict::Unreachable { park: Some(route), .. }) => engine.parked(route),
        // Another node may reach the destination that this one could not. The first node that polls gets the event, so
        // this node sets no timer for it.
        (Settled::Waiting { .. }, Verdict::Unreachable { .. }) if engine.settings.mode == Mode::MultiNode => {
        }
        (Settled::Waiting { delay }, verdict) => {
            if matches!(verdict, Verdict::Deferred { .. }) {
                metrics.deferred.increment(1);
            }
            engine.retry_timer.add(Instant::now() + *delay);
        }
        (Settled::Dead { attempts }, _) => {
            metrics.dead.increment(1);
            tracing::error!(
                outbox = %engine.settings.name,
                event_id = %settlement.lease.id,
                attempts,
                "event is DEAD; its row says why: fix that, then replay it"
            );
        }
        (Settled::Stale, Verdict::Done) => metrics.late_done.increment(1),
        (Settled::Stale, _) => metrics.lease_conflicts.increment(1),
        (Settled::Unknown, _) => {}
    }
}
