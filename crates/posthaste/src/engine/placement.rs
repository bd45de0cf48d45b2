//! Where claimed events go: into the queue, aside because their route cannot take them, or back.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Shared;
use super::queue::Item;
use crate::destination::Delivery;
use crate::error::cut_error;
use crate::store::{Claimed, Lease, Leased, Malformed, Settlement, Verdict};

/// Places what a claim brought. Answers false if something went back for want of room.
///
/// Whatever must not be half done is done before the first await: a poll that is dropped after it
/// only leaves leases to lapse.
pub(super) async fn place(shared: &Shared, claimed: Claimed, until: Instant) -> bool {
    shared.set_paused(&claimed.paused);
    let mut placement = Placement::default();
    for leased in claimed.events {
        placement.add(shared, leased, until);
    }
    let all = placement.back.is_empty();
    if !all {
        shared.outgoing.release(placement.back, Instant::now());
    }
    bury(shared, claimed.malformed).await;
    for (route, leases) in placement.aside {
        shared.park(route, &leases).await;
    }
    all
}

/// What the queue did not take.
#[derive(Default)]
struct Placement {
    /// To be parked, by route.
    aside: BTreeMap<usize, Vec<Lease>>,
    /// To be released.
    back: Vec<Lease>,
}

impl Placement {
    fn add(&mut self, shared: &Shared, leased: Leased, until: Instant) {
        // A copy that waits or runs here already goes on, under the new lease.
        if shared.inflight.adopt(&leased.lease, until) {
            return;
        }
        // In ordered mode what comes behind an event that has to wait waits too.
        if shared.settings.ordered() && !self.back.is_empty() {
            self.back.push(leased.lease);
            return;
        }
        let route = shared.routes.find(&leased.event);
        let probe = shared.is_closed(route) && shared.try_probe(route);
        if shared.is_closed(route) && !probe {
            self.put_aside(shared, route, leased.lease);
            return;
        }
        // Noted before it is queued, because a worker may take it at once.
        if !shared.inflight.admit(&leased.lease, until) {
            shared.inflight.adopt(&leased.lease, until);
            return;
        }
        let lease = leased.lease.clone();
        let Err(refused) = shared.queue.push(item(leased, route, probe)) else {
            shared.metrics.cold_enqueued.increment(1);
            return;
        };
        shared.inflight.forget([refused.item.id()]);
        if probe {
            shared.breaker(route, |breaker| breaker.postpone_probe(Instant::now()));
        }
        if refused.share_is_full {
            shared.set_crowded(route);
            self.put_aside(shared, route, lease);
        } else {
            self.back.push(lease);
        }
    }

    /// Ordered mode parks nothing: what has to wait goes back, and stays the first.
    fn put_aside(&mut self, shared: &Shared, route: usize, lease: Lease) {
        if shared.settings.ordered() {
            self.back.push(lease);
        } else {
            self.aside.entry(route).or_default().push(lease);
        }
    }
}

fn item(leased: Leased, route: usize, probe: bool) -> Item {
    let now = Instant::now();
    Item {
        delivery: Delivery {
            attempt: leased.attempts.saturating_add(1),
            replays: leased.replays,
            ..Delivery::first(leased.event)
        },
        route,
        progress: leased.progress,
        probe,
        since: now.checked_sub(leased.age).unwrap_or(now),
        arrival: 0,
    }
}

/// Rows that nobody can read become DEAD, with the reason.
async fn bury(shared: &Shared, malformed: Vec<Malformed>) {
    if malformed.is_empty() {
        return;
    }
    let settlements = malformed.into_iter().map(|row| {
        tracing::error!(
            outbox = %shared.settings.name,
            event_id = %row.lease.id,
            reason = %row.reason,
            "event cannot be decoded"
        );
        let reason = cut_error(format!("malformed: {}", row.reason));
        Settlement { lease: row.lease, verdict: Verdict::Dead { reason }, delivered: Vec::new() }
    });
    shared.outgoing.settle(settlements.collect()).await;
}
