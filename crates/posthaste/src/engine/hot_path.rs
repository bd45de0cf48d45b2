//! The hot path: which rows are born leased to this engine, and what happens to them after a commit.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::queue::Item;
use crate::destination::{Delivery, Source};
use crate::event::Event;
use crate::store::{Lease, Owner};
use crate::writer::receipt::{Proof, Written};

/// How long after its receipt was dropped a row is given back: its transaction may still be open.
const ABANDONED: Duration = Duration::from_secs(1);

/// The way from a Writer to its engine, if that runs. Empty until the outbox starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct HotPath(Arc<OnceLock<Arc<Shared>>>);

impl HotPath {
    pub(crate) fn connect(&self, shared: Arc<Shared>) {
        let _ = self.0.set(shared);
    }

    /// The owner and length of the lease that this event's row shall be born with. None if it is
    /// better left to a poller: then nothing has to be released afterwards.
    pub(crate) fn lease_for(&self, event: &Event) -> Option<(Owner, Duration)> {
        let shared = self.running()?;
        let route = shared.routes.find(event);
        if shared.queue.hot_is_crowded(route) || shared.is_closed(route) {
            return None;
        }
        Some((shared.owner.clone(), shared.settings.lease.hot))
    }

    /// These rows were committed, or so their caller says. Never blocks and never fails.
    pub(crate) fn committed(&self, written: Vec<Written>, asked_at: Instant, proof: Proof) {
        let Some(shared) = self.running() else { return };
        let now = Instant::now();
        let hot = shared.settings.lease.hot;
        let until = asked_at + hot;
        let in_time = until.saturating_duration_since(now) >= hot / 3;
        let mut wake = false;
        for Written { event, delay, lease, .. } in written {
            match lease {
                None if delay.is_some() => shared.metrics.hot_skipped_delayed.increment(1),
                None => wake = true,
                Some(lease) if !in_time => shared.write_back.release(vec![lease], now),
                Some(lease) => match proof {
                    Proof::Proven => offer(shared, event, &lease, until, asked_at),
                    Proof::CallersWord => shared.confirmer.add(shared, event, lease, until),
                },
            }
        }
        if wake {
            shared.poll_bell.ring();
        }
    }

    /// So many ids existed already when they were written.
    pub(crate) fn duplicates(&self, count: usize) {
        if let Some(shared) = self.running() {
            shared.metrics.write_duplicates.increment(count as u64);
        }
    }

    /// A receipt was dropped: nobody will say what became of these rows.
    pub(crate) fn abandoned(&self, leases: Vec<Lease>) {
        if let Some(shared) = self.running() {
            shared.write_back.release(leases, Instant::now() + ABANDONED);
        }
    }

    fn running(&self) -> Option<&Arc<Shared>> {
        self.0.get().filter(|shared| shared.settings.hot_path && !shared.is_stopping())
    }
}

/// Puts a committed event into the hot queue; if there is no place for it, its row goes back to
/// the poller.
pub(super) fn offer(shared: &Shared, event: Event, lease: &Lease, until: Instant, since: Instant) {
    let route = shared.routes.find(&event);
    if shared.is_closed(route) {
        shared.write_back.release(vec![lease.clone()], Instant::now());
        return;
    }
    if !shared.inflight.admit(lease, until) {
        return;
    }
    let item = Item {
        delivery: Delivery { source: Source::Hot, ..Delivery::first(event.delivered()) },
        seq: lease.seq,
        lost_leases: 0,
        route,
        progress: BTreeSet::new(),
        probe: false,
        since,
        arrival: 0,
    };
    match shared.queue.push(item) {
        Ok(()) => shared.metrics.hot_enqueued.increment(1),
        Err(refused) => {
            shared.inflight.forget([refused.item.row()]);
            shared.write_back.release(vec![lease.clone()], Instant::now());
            shared.metrics.hot_dropped.increment(1);
            if shared.warn_limit.allows(Instant::now()) {
                tracing::warn!(
                    outbox = %shared.settings.name,
                    "the hot queue is full; events go through the store until it drains"
                );
            }
        }
    }
}
