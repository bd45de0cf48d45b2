//! Dispatch of claimed events: each is queued, parked because its route cannot take it, settled as DEAD, or released.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::EngineState;
use super::queued_event::QueuedEvent;
use super::suspect_event::proving_time;
use crate::destination::Delivery;
use crate::error::cut_error;
use crate::route::ParkReason;
use crate::store::{Claimed, Lease, Leased, MAX_LOST_LEASES, Malformed, Settlement, Verdict};

/// The result of placing a claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    /// Some events were released: there was no room, or, in strict mode, an event before them has to wait.
    pub(super) full: bool,
    /// There were events and all of them were parked, so this engine can do nothing with them now.
    pub(super) all_parked: bool,
}

/// Places the events of a claim.
///
/// Everything that must not be half done happens before the first await. If the poll is dropped after that, the leases
/// of the rest lapse.
pub(super) async fn place(engine: &EngineState, claimed: Claimed, until: Instant) -> Placed {
    engine.set_paused(&claimed.paused);
    engine.note_parked(&claimed.parked);
    let mut placement = Placement::default();
    let count = claimed.events.len();
    for leased in claimed.events {
        placement.add(engine, leased, until);
    }
    let parked = placement.to_park.values().map(Vec::len).sum::<usize>() + placement.suspects.len();
    let placed = Placed { full: !placement.to_release.is_empty(), all_parked: count > 0 && parked == count };
    if placed.full {
        engine.write_back.release(placement.to_release, Instant::now());
    }
    placement.given_up.extend(claimed.malformed.into_iter().map(|row| undecodable(engine, row)));
    if !placement.given_up.is_empty() {
        engine.write_back.settle(placement.given_up).await;
    }
    for (route, leases) in placement.to_park {
        engine.park(route, &leases).await;
    }
    if !placement.suspects.is_empty() {
        engine.park_for(ParkReason::Suspect, &placement.suspects).await;
    }
    placed
}

/// Events that the queue did not take.
#[derive(Default)]
struct Placement {
    /// To be parked, by route.
    to_park: BTreeMap<usize, Vec<Lease>>,
    /// To be released.
    to_release: Vec<Lease>,
    /// To be parked until they can be delivered alone.
    suspects: Vec<Lease>,
    /// To be settled as DEAD.
    given_up: Vec<Settlement>,
    /// Strict mode: a suspect is queued, and no event may be queued behind it.
    closed_by_suspect: bool,
}

impl Placement {
    fn add(&mut self, engine: &EngineState, leased: Leased, until: Instant) {
        // A copy that already waits or runs here continues, under the new lease.
        if engine.inflight.adopt(&leased.lease, until) {
            return;
        }
        // Strict mode: events behind one that has to wait are released too.
        if engine.settings.is_strict() && (!self.to_release.is_empty() || self.closed_by_suspect) {
            self.to_release.push(leased.lease);
            return;
        }
        if leased.lost_leases >= MAX_LOST_LEASES {
            let reason = format!(
                "its leases were lost {} times; its delivery may crash the process",
                leased.lost_leases
            );
            self.given_up.push(dead(leased.lease, reason));
            return;
        }
        let route = engine.routes.find(&leased.event);
        let probe = engine.is_closed(route) && engine.try_probe(route);
        if engine.is_closed(route) && !probe {
            self.park_or_release(engine, route, leased.lease);
            return;
        }
        // Registered as in flight before it is queued, because a worker may take it immediately.
        if !engine.inflight.admit(&leased.lease, until) {
            engine.inflight.adopt(&leased.lease, until);
            return;
        }
        let lease = leased.lease.clone();
        let item = item(leased, route, probe);
        if item.is_suspect() {
            self.add_suspect(engine, item, lease);
            return;
        }
        let Err(refused) = engine.queue.push(item) else {
            engine.metrics.cold_enqueued.increment(1);
            return;
        };
        engine.inflight.forget([refused.item.row()]);
        if probe {
            engine.breaker(route, |breaker| breaker.postpone_probe(Instant::now()));
        }
        if refused.share_is_full {
            engine.set_crowded(route);
            self.park_or_release(engine, route, lease);
        } else {
            self.to_release.push(lease);
        }
    }

    /// Puts a suspect into the queue's only slot for suspects, where it waits until this engine has run long enough.
    fn add_suspect(&mut self, engine: &EngineState, item: QueuedEvent, lease: Lease) {
        let not_before = engine.started + proving_time(item.lost_leases, engine.settings.lease.duration);
        match engine.queue.push_suspect(item, not_before) {
            Ok(()) => self.closed_by_suspect = true,
            Err(item) => {
                engine.inflight.forget([item.row()]);
                if item.probe {
                    engine.breaker(item.route, |breaker| breaker.postpone_probe(Instant::now()));
                }
                if engine.settings.is_strict() {
                    self.to_release.push(lease);
                } else {
                    self.suspects.push(lease);
                }
            }
        }
    }

    /// Strict mode parks nothing: an event that has to wait is released and stays first in the order.
    fn park_or_release(&mut self, engine: &EngineState, route: usize, lease: Lease) {
        if engine.settings.is_strict() {
            self.to_release.push(lease);
        } else {
            self.to_park.entry(route).or_default().push(lease);
        }
    }
}

fn item(leased: Leased, route: usize, probe: bool) -> QueuedEvent {
    let now = Instant::now();
    QueuedEvent {
        delivery: Delivery {
            attempt: leased.attempts.saturating_add(1),
            deferrals: leased.deferrals,
            replays: leased.replays,
            ..Delivery::first(leased.event)
        },
        seq: leased.lease.seq,
        lost_leases: leased.lost_leases,
        route,
        progress: leased.progress,
        probe,
        since: now.checked_sub(leased.age).unwrap_or(now),
        arrival: 0,
    }
}

/// A row that cannot be read becomes DEAD, with the reason.
fn undecodable(engine: &EngineState, row: Malformed) -> Settlement {
    tracing::error!(
        outbox = %engine.settings.name,
        event_id = %row.lease.id,
        reason = %row.reason,
        "event cannot be decoded"
    );
    dead(row.lease, format!("malformed: {}", row.reason))
}

fn dead(lease: Lease, reason: String) -> Settlement {
    Settlement::new(lease, Verdict::Dead { reason: cut_error(reason) })
}
