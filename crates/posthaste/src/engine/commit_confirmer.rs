//! The confirmer: looks up commits that only the caller vouches for.
//!
//! One batched statement reads which rows exist: a renewal returns exactly the leases whose rows are committed
//! and still held. Only those become hot. The others were rolled back, or the poller finds them.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{EngineState, hot_path, lease_renewer};
use crate::event::Event;
use crate::mutex::lock;
use crate::store::Lease;

/// Events whose commits have to be looked up. Filled by the hot path, emptied by [`run`].
#[derive(Debug, Default)]
pub(crate) struct Confirmer {
    inner: Mutex<Inner>,
    /// Wakes [`run`].
    work: Notify,
    /// Wakes all that wait until every commit is looked up.
    idle: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Events that their callers say are committed, each with its lease and when the lease ends.
    waiting: Vec<(Event, Lease, Instant)>,
    /// Bytes of the events that wait and of those being looked up.
    bytes: usize,
    /// Whether a lookup is under way. Set by `take`, reset by `answered`.
    asking: bool,
}

impl Confirmer {
    /// Adds an event. The confirmer holds at most as many events as the hot queue, and at most a quarter of the queue's
    /// bytes; beyond that the row is released to the poller.
    pub(crate) fn add(&self, engine: &EngineState, event: Event, lease: Lease, until: Instant) {
        let mut inner = self.lock();
        let limits = &engine.settings.queue;
        if inner.waiting.len() >= limits.hot || inner.bytes + event.weight() > limits.bytes / 4 {
            drop(inner);
            engine.write_back.release(vec![lease], Instant::now());
            return;
        }
        inner.bytes += event.weight();
        inner.waiting.push((event, lease, until));
        drop(inner);
        self.work.notify_one();
    }

    /// Waits until every receipt so far has been looked up.
    pub(crate) async fn quiet(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.is_quiet() {
                return;
            }
            idle.await;
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let inner = self.lock();
        inner.waiting.is_empty() && !inner.asking
    }

    async fn take(&self) -> Vec<(Event, Lease, Instant)> {
        loop {
            let work = self.work.notified();
            {
                let mut inner = self.lock();
                if !inner.waiting.is_empty() {
                    inner.asking = true;
                    return std::mem::take(&mut inner.waiting);
                }
            }
            work.await;
        }
    }

    fn answered(&self) {
        let mut inner = self.lock();
        inner.asking = false;
        inner.bytes = inner.waiting.iter().map(|(event, ..)| event.weight()).sum();
        drop(inner);
        self.idle.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Runs until it is cancelled.
pub(crate) async fn run(engine: Arc<EngineState>) {
    loop {
        let waiting = engine.confirmer.take().await;
        confirm(&engine, waiting).await;
        engine.confirmer.answered();
    }
}

async fn confirm(engine: &EngineState, waiting: Vec<(Event, Lease, Instant)>) {
    let now = Instant::now();
    let in_time: Vec<(Event, Lease)> = waiting
        .into_iter()
        .filter(|(.., until)| *until > now)
        .map(|(event, lease, _)| (event, lease))
        .collect();
    let leases: Vec<Lease> = in_time.iter().map(|(_, lease)| lease.clone()).collect();
    let Some(held) = lease_renewer::renew(engine, &leases, false).await else {
        // If only the reply was lost, the rows now have a lease that is longer than the hot lease.
        engine.write_back.release(leases, Instant::now());
        return;
    };
    let until = now + engine.settings.lease.duration;
    for (event, lease) in in_time {
        if held.contains(&lease) {
            hot_path::offer(engine, event, &lease, until, now);
        }
    }
}
