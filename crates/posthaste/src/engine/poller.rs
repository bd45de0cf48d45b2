//! Claims due events from the store. Alone it is enough: everything else only makes it faster.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::placement::place;
use crate::error::StoreError;
use crate::route::{SUSPECTS, probed};
use crate::store::{Claim, LeaseToken, Unpark, Wake};

/// The most parked events that one statement brings back.
const MOST_UNPARKED: usize = 512;

/// An engine that could do nothing with what it found ignores hints for so long. What it parked another engine
/// may bring back and deliver; if this one were woken for it, the two could hand the same events to each
/// other without end.
const SHY: Duration = Duration::from_millis(500);

/// Between two pages of rows that are parked under names of others.
pub(super) const OTHERS_PAUSE: Duration = Duration::from_secs(1);

/// A probe that is late by so much is looked for beside a backlog too.
const PROBE_OVERDUE: Duration = Duration::from_secs(10);

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polled {
    /// Rows that were claimed, whatever became of them.
    pub(crate) claimed: usize,
    /// There is probably more: poll again at once.
    pub(crate) again: bool,
    /// There was no room: poll again when there is.
    pub(crate) full: bool,
    /// There was something, and all of it was parked.
    pub(crate) all_parked: bool,
}

/// Runs until it is told to stop. A poll that has begun is finished, so that no claim is lost.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let wake = shared.store.wake();
    let (busy, idle) = (shared.settings.busy_interval(), shared.settings.poller.interval);
    let mut pause = busy;
    let mut shy_until = Instant::now();
    while !stop.is_cancelled() {
        if shared.settings.ordered() {
            // Nothing may be claimed while something older is still on its way.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = shared.quiet() => {}
            }
        }
        let polled = poll(&shared).await;
        pause = match polled {
            Ok(Polled { claimed: 1.., .. }) => busy,
            _ => (pause * 2).min(idle),
        };
        if let Ok(Polled { all_parked: true, .. }) = polled {
            shy_until = Instant::now() + out_of_step(idle.min(SHY));
        }
        if let Ok(Polled { again: true, .. }) = polled {
            // A store that answers at once must not keep the others from running.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased; // so that a simulation can be repeated
            () = stop.cancelled() => return,
            () = wait(&shared, out_of_step(pause), wake.as_ref(), polled, shy_until) => {}
        }
    }
}

/// The pause, or up to a quarter less. A hint wakes every node at the same moment: with equal pauses one
/// of them would be the first at each poll from then on, and take every event that only another has a
/// route for.
fn out_of_step(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - fastrand::f64() / 4.0)
}

/// Waits for whatever comes first: the interval, a hint, a retry's time or a probe's time. After a
/// poll that had no room, only the interval and room count; after one that failed, the interval alone: a
/// store in trouble is not asked more often. Hints do not count before `shy_until`.
async fn wait(
    shared: &Shared,
    pause: Duration,
    wake: Option<&Wake>,
    polled: Result<Polled, StoreError>,
    shy_until: Instant,
) {
    let interval = Instant::now() + pause;
    let Ok(Polled { full, .. }) = polled else { return tokio::time::sleep_until(interval).await };
    let shy = shy_until > Instant::now();
    let interval = if shy { interval.min(shy_until) } else { interval };
    let hints = !full && !shy;
    let until =
        if full { interval } else { shared.next_probe().map_or(interval, |probe| probe.min(interval)) };
    tokio::select! {
        biased; // so that a simulation can be repeated
        () = tokio::time::sleep_until(until) => {}
        () = shared.queue.room(), if full => {}
        () = shared.poll_bell.rung(), if hints => {}
        () = shared.retry_timer.next(), if hints => {}
        () = rung(wake), if hints => {}
    }
}

async fn rung(wake: Option<&Wake>) {
    match wake {
        Some(wake) => wake.rung().await,
        None => std::future::pending().await,
    }
}

/// One poll: claims what fits, places it, and brings parked events of reopened routes back.
pub(crate) async fn poll(shared: &Shared) -> Result<Polled, StoreError> {
    let _alone = shared.polling.lock().await;
    if shared.settings.ordered() && !shared.is_quiet() {
        return Ok(Polled { full: true, ..Polled::default() });
    }
    shared.queue.admit_again();
    let room = shared.queue.cold_room();
    if room.events == 0 {
        return Ok(Polled { full: true, ..Polled::default() });
    }
    let limit = limit(shared, room.events);
    let (asked_at, max_bytes) = (Instant::now(), room.bytes.min(shared.claim_bytes.limit()));
    let claim = Claim {
        owner: &shared.owner,
        token: LeaseToken::random(),
        lease: shared.settings.lease.duration,
        limit,
        max_bytes,
        order: shared.settings.order,
        skip_recent: shared.settings.poller.skip_recent,
        now: None,
    };
    let claimed = shared.call("claim", shared.store.claim(&claim)).await;
    match &claimed {
        Ok(claimed) if claimed.cut => {
            shared.claim_bytes.was_full(max_bytes, asked_at.elapsed(), shared.settings.store_timeout);
        }
        Err(StoreError::Timeout(_)) => shared.claim_bytes.was_lost(max_bytes),
        _ => {}
    }
    let claimed = claimed?;
    let count = claimed.events.len() + claimed.malformed.len();
    let full_batch = limit > 0 && (count >= limit || claimed.cut);
    let suspects = claimed.parked.contains(SUSPECTS);
    let placed = place(shared, claimed, asked_at + shared.settings.lease.duration).await;
    let mut unparked = unpark(shared).await?;
    bring_back_others(shared).await?;
    if suspects && shared.queue.wants_suspect() {
        unparked += u64::from(unpark_one(shared, SUSPECTS).await?);
    }
    // A backlog of other routes keeps nobody waiting for a probe for long.
    let overdue = shared.next_probe().is_some_and(|at| at + PROBE_OVERDUE <= Instant::now());
    let probing = (!full_batch || overdue) && find_probes(shared).await?;
    Ok(Polled {
        claimed: count,
        again: !placed.full && (full_batch || unparked > 0 || probing),
        full: placed.full,
        all_parked: placed.all_parked,
    })
}

/// Brings back one parked event for each probe that found none. Answers whether there is one.
async fn find_probes(shared: &Shared) -> Result<bool, StoreError> {
    let mut found = false;
    for route in shared.routes_to_probe() {
        // Where no other event waits, one that was a probe before is the probe again.
        let name = shared.route_name(route);
        if unpark_one(shared, name).await? || unpark_one(shared, &probed(name)).await? {
            found = true;
        } else {
            shared.breaker(route, |breaker| breaker.postpone_probe(Instant::now()));
        }
    }
    Ok(found)
}

async fn unpark_one(shared: &Shared, route: &str) -> Result<bool, StoreError> {
    let unpark = Unpark { route, limit: 1, now: None };
    Ok(shared.call("unpark", shared.store.unpark(&unpark)).await? > 0)
}

/// How many events to claim. While every route is closed nothing is claimed but a probe; ordered
/// mode waits for any closed route, because nothing may overtake its events.
fn limit(shared: &Shared, room: usize) -> usize {
    let batch = few_sizes(shared.settings.poller.batch.min(room), shared.settings.poller.batch);
    let closed = shared.closed_routes();
    let all_closed = closed > 0 && closed == shared.routes.entries().len();
    if all_closed || (closed > 0 && shared.settings.ordered()) {
        return match shared.routes_to_probe().len() {
            0 => 0,
            // The one route's first event is the probe. With several, the event wanted may lie
            // behind others.
            1 if closed == 1 => 1,
            _ if shared.settings.ordered() => 1,
            _ => batch,
        };
    }
    batch
}

/// Brings parked events of reopened routes back, as many as there is room for.
async fn unpark(shared: &Shared) -> Result<u64, StoreError> {
    let mut total = 0;
    for route in shared.reopened_routes() {
        let limit = few_sizes(shared.queue.cold_room_of(route).min(MOST_UNPARKED), MOST_UNPARKED);
        if limit == 0 {
            // Comes back to it when the route has drained.
            shared.set_crowded(route);
            continue;
        }
        let guard = shared.begin_unpark(route);
        let name = shared.route_name(route);
        let mut all = true;
        for parked in [name, &probed(name)] {
            let unpark = Unpark { route: parked, limit, now: None };
            let rows = shared.call("unpark", shared.store.unpark(&unpark)).await?;
            total += rows;
            all &= rows < limit as u64;
        }
        if all {
            guard.got_all();
        }
    }
    Ok(total)
}

/// Brings back what is parked under names that are no route of this engine, each name once: the route may
/// have been renamed, or the event may have a route now. A page a second: another engine that has the route and
/// finds it closed may park them again.
async fn bring_back_others(shared: &Shared) -> Result<(), StoreError> {
    let limit = few_sizes(shared.queue.cold_room().events.min(MOST_UNPARKED), MOST_UNPARKED);
    let Some(name) = shared.other_parked(Instant::now()).filter(|_| limit > 0) else { return Ok(()) };
    let unpark = Unpark { route: &name, limit, now: None };
    let rows = shared.call("unpark", shared.store.unpark(&unpark)).await?;
    if rows < limit as u64 {
        shared.brought_back(name);
    }
    shared.retry_timer.add(Instant::now() + OTHERS_PAUSE);
    if rows > 0 {
        shared.poll_bell.ring();
    }
    Ok(())
}

/// The whole batch, or the next smaller power of two. Stores write limits into their statements, and
/// a driver's cache should not fill with a statement for every number.
fn few_sizes(wanted: usize, batch: usize) -> usize {
    match wanted {
        0 => 0,
        _ if wanted >= batch => batch,
        _ => 1 << wanted.ilog2(),
    }
}
