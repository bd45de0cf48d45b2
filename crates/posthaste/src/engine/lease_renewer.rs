//! The lease renewer: extends the lease of every event that this engine holds, in one statement.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::Shared;
use crate::store::{Lease, Renew};

/// Runs until it is cancelled.
pub(crate) async fn run(shared: Arc<Shared>) {
    let lease = &shared.settings.lease;
    let tick = lease.duration.min(lease.hot) / 3;
    loop {
        // An idle engine has no timer here.
        shared.inflight.occupied().await;
        tokio::time::sleep(tick).await;
        renew_ending(&shared).await;
    }
}

/// Renews every lease with less than two thirds of its time left.
async fn renew_ending(shared: &Shared) {
    let duration = shared.settings.lease.duration;
    let leases = shared.inflight.ending_within(duration * 2 / 3, Instant::now());
    if let Some(held) = renew(shared, &leases, false).await {
        let lost = leases.iter().filter(|lease| !held.contains(*lease)).count();
        shared.metrics.lease_conflicts.increment(lost as u64);
    }
}

/// Renews these leases and returns which of them are still ours; none if the store cannot say. `start`
/// counts their deliveries as begun.
pub(super) async fn renew(shared: &Shared, leases: &[Lease], start: bool) -> Option<HashSet<Lease>> {
    if leases.is_empty() {
        return None;
    }
    let asked_at = Instant::now();
    let duration = shared.settings.lease.duration;
    let request = Renew { owner: &shared.owner, leases, lease: duration, start, now: None };
    let answer = shared.call("renew", shared.store.renew(&request)).await.ok()?;
    let held: HashSet<_> = answer.into_iter().collect();
    let (kept, lost): (Vec<&Lease>, Vec<&Lease>) = leases.iter().partition(|lease| held.contains(*lease));
    shared.inflight.renewed(kept, asked_at + duration);
    shared.inflight.lost(lost, Instant::now());
    Some(held)
}
