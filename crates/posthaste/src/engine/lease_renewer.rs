//! The lease renewer: extends the leases of this engine that end soon, in one call of the store.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::EngineState;
use crate::store::{Lease, Renew};

/// Runs until it is cancelled.
pub(crate) async fn run(engine: Arc<EngineState>) {
    let lease = &engine.settings.lease;
    let tick = lease.duration.min(lease.hot) / 3;
    loop {
        // An idle engine runs no timer here.
        engine.inflight.occupied().await;
        tokio::time::sleep(tick).await;
        renew_ending(&engine).await;
    }
}

/// Renews every lease that ends within two thirds of `lease.duration`.
async fn renew_ending(engine: &EngineState) {
    let duration = engine.settings.lease.duration;
    let leases = engine.inflight.ending_within(duration * 2 / 3, Instant::now());
    if let Some(held) = renew(engine, &leases, false).await {
        let lost = leases.iter().filter(|lease| !held.contains(*lease)).count();
        engine.metrics.lease_conflicts.increment(lost as u64);
    }
}

/// Renews these leases and returns those that this engine still holds. `None` if the store failed or there are no
/// leases to renew. With `start`, the store counts that the delivery of each of these events begins: see
/// [`Renew::start`].
pub(super) async fn renew(engine: &EngineState, leases: &[Lease], start: bool) -> Option<HashSet<Lease>> {
    if leases.is_empty() {
        return None;
    }
    let asked_at = Instant::now();
    let duration = engine.settings.lease.duration;
    let request = Renew { owner: &engine.owner, leases, lease: duration, start, now: None };
    let answer = engine.call("renew", engine.store.renew(&request)).await.ok()?;
    let held: HashSet<_> = answer.into_iter().collect();
    let (kept, lost): (Vec<&Lease>, Vec<&Lease>) = leases.iter().partition(|lease| held.contains(*lease));
    engine.inflight.renewed(kept, asked_at + duration);
    engine.inflight.lost(lost, Instant::now());
    Some(held)
}
