//! The hot path: which rows are born leased to this engine, and what happens to them after the commit.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::EngineState;
use super::queued_event::QueuedEvent;
use crate::destination::{Delivery, Source};
use crate::event::Event;
use crate::store::{Lease, Owner};

/// A row is released this long after its receipt was dropped, because its transaction may still be open.
const ABANDONED_RELEASE_DELAY: Duration = Duration::from_secs(1);

/// The connection from a Writer to the engine. Empty until the outbox is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct HotPath(Arc<OnceLock<Arc<EngineState>>>);

/// An event that a Writer has inserted.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) event: Event,
    pub(crate) seq: i64,
    /// How long its delivery is delayed; `None` if it was due immediately.
    pub(crate) delay: Option<Duration>,
    /// The lease that the row was born with, if it was.
    pub(crate) lease: Option<Lease>,
}

/// Who vouches for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The driver's `Tx` saw the rows in its transaction before it committed.
    Proven,
    /// Only the caller says so. The engine looks the rows up before it delivers them.
    CallersWord,
}

impl HotPath {
    pub(crate) fn connect(&self, engine: Arc<EngineState>) {
        let _ = self.0.set(engine);
    }

    /// Owner and duration of the lease that this event's row is born with. `None` if the row is better left to a
    /// poller; then nothing has to be released afterwards.
    pub(crate) fn lease_for(&self, event: &Event) -> Option<(Owner, Duration)> {
        let engine = self.running()?;
        let route = engine.routes.find(event);
        if engine.queue.hot_is_crowded(route) || engine.is_closed(route) {
            return None;
        }
        Some((engine.owner.clone(), engine.settings.lease.hot))
    }

    /// These rows were committed, according to `proof`. Never blocks and never fails.
    pub(crate) fn committed(&self, written: Vec<Written>, asked_at: Instant, proof: Proof) {
        let Some(engine) = self.running() else { return };
        let now = Instant::now();
        let hot = engine.settings.lease.hot;
        let until = asked_at + hot;
        let in_time = until.saturating_duration_since(now) >= hot / 3;
        let mut wake = false;
        for Written { event, delay, lease, .. } in written {
            match lease {
                None if delay.is_some() => engine.metrics.hot_skipped_delayed.increment(1),
                None => wake = true,
                Some(lease) if !in_time => engine.write_back.release(vec![lease], now),
                Some(lease) => match proof {
                    Proof::Proven => offer(engine, event, &lease, until, asked_at),
                    Proof::CallersWord => engine.confirmer.add(engine, event, lease, until),
                },
            }
        }
        if wake {
            engine.poll_notifier.notify();
        }
    }

    /// This many ids existed already when they were written.
    pub(crate) fn duplicates(&self, count: usize) {
        if let Some(engine) = self.running() {
            engine.metrics.write_duplicates.increment(count as u64);
        }
    }

    /// A receipt was dropped, so the outcome of its transaction is unknown.
    pub(crate) fn abandoned(&self, leases: Vec<Lease>) {
        if let Some(engine) = self.running() {
            engine.write_back.release(leases, Instant::now() + ABANDONED_RELEASE_DELAY);
        }
    }

    fn running(&self) -> Option<&Arc<EngineState>> {
        self.0.get().filter(|engine| engine.settings.hot_path && !engine.is_stopping())
    }
}

/// Adds a committed event to the hot queue. If there is no room, its row is released to the poller.
pub(super) fn offer(engine: &EngineState, event: Event, lease: &Lease, until: Instant, since: Instant) {
    let route = engine.routes.find(&event);
    if engine.is_closed(route) {
        engine.write_back.release(vec![lease.clone()], Instant::now());
        return;
    }
    if !engine.inflight.admit(lease, until) {
        return;
    }
    let item = QueuedEvent {
        delivery: Delivery { source: Source::Hot, ..Delivery::first(event.delivered()) },
        seq: lease.seq,
        lost_leases: 0,
        route,
        progress: BTreeSet::new(),
        probe: false,
        since,
        arrival: 0,
    };
    match engine.queue.push(item) {
        Ok(()) => engine.metrics.hot_enqueued.increment(1),
        Err(refused) => {
            engine.inflight.forget([refused.item.row()]);
            engine.write_back.release(vec![lease.clone()], Instant::now());
            engine.metrics.hot_dropped.increment(1);
            if engine.warn_limit.allows(Instant::now()) {
                tracing::warn!(
                    outbox = %engine.settings.name,
                    "the hot queue is full; events go through the store until it drains"
                );
            }
        }
    }
}
