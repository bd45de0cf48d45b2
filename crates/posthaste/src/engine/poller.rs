//! The poller: claims due events from the store. Everything else only makes delivery faster; the poller alone is
//! enough.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::EngineState;
use super::dispatch::place;
use super::work_queue::Room;
use crate::error::StoreError;
use crate::route::ParkReason;
use crate::store::{Claim, Claimed, Notifier};

/// The most parked events that one statement brings back.
const MAX_UNPARKED_ROWS: usize = 512;

/// How long an engine ignores hints after a poll whose events were all parked. Another engine may bring them back and
/// deliver them; if that woke this engine, the two could hand the same events to each other without end.
const IGNORE_HINTS_FOR: Duration = Duration::from_millis(500);

/// The pause between two pages of parked rows whose park reason names a route that this engine does not have.
pub(super) const OTHERS_UNPARK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the poller waits for room for a whole batch. A claim of a few rows costs the store nearly as much as one of
/// a whole batch. But events that no worker can start now may keep the room small, and others must not wait for them.
const MAX_WAIT_FOR_ROOM: Duration = Duration::from_millis(2);

/// A probe that is overdue by this much is looked for even while there is a backlog.
const PROBE_OVERDUE_AFTER: Duration = Duration::from_secs(10);

/// The result of one poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polled {
    /// Rows that were claimed, whatever happened to them.
    pub(crate) claimed: usize,
    /// There is probably more: poll again immediately.
    pub(crate) again: bool,
    /// The queue had no room: poll again when it has.
    pub(crate) full: bool,
    /// There were events, and all of them were parked.
    pub(crate) all_parked: bool,
}

/// Runs until `stop` is cancelled. A claim that has begun is finished, so that none is lost.
pub(crate) async fn run(engine: Arc<EngineState>, stop: CancellationToken) {
    let wake = engine.store.wake();
    let (busy, idle) = (engine.settings.busy_interval(), engine.settings.poller.interval);
    let mut pause = busy;
    let mut ignore_hints_until = Instant::now();
    // The lock is held as long as a claim is under way: until then the engine is not idle.
    let (mut next, mut alone) = (None, None);
    while !stop.is_cancelled() {
        if engine.settings.is_strict() {
            // Nothing may be claimed while an older event is still on its way.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = engine.quiet() => {}
            }
        }
        if next.is_none() {
            let _ = timeout(MAX_WAIT_FOR_ROOM, engine.queue.room_for(wanted_room(&engine))).await;
        }
        if alone.is_none() {
            alone = Some(engine.polling.lock().await);
        }
        let polled = poll_ahead(&engine, &mut next).await;
        if next.is_none() {
            alone = None;
        }
        pause = match polled {
            Ok(Polled { claimed: 1.., .. }) => busy,
            _ => (pause * 2).min(idle),
        };
        if let Ok(Polled { all_parked: true, .. }) = polled {
            ignore_hints_until = Instant::now() + jittered(idle.min(IGNORE_HINTS_FOR));
        }
        let again = matches!(polled, Ok(Polled { again: true, .. }));
        if again || next.is_some() {
            // A store that returns immediately must not keep other tasks from running.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            biased; // so that a simulation can be repeated
            () = stop.cancelled() => return,
            () = wait(&engine, jittered(pause), wake.as_ref(), polled, ignore_hints_until) => {}
        }
    }
    if let Some(last) = next {
        // The queue refuses its events, so they are released.
        let _ = take_in(&engine, last.answer().await).await;
    }
}

/// The room for a whole batch, but at most half of the queue: the other half keeps the workers busy during the claim.
fn wanted_room(engine: &EngineState) -> usize {
    let settings = &engine.settings;
    settings.poller.batch.min(settings.queue.cold.div_ceil(2))
}

/// The pause, shortened by up to a quarter. A hint wakes every node at the same moment. With equal pauses, the same
/// node could then be the first at every poll, and always claim events for which only another node has a route.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - fastrand::f64() / 4.0)
}

/// Waits for whatever comes first: the interval, a hint, the time of a retry or of a probe. After a poll that had no
/// room, only the interval and room count. After a poll that failed, only the interval counts, so that a store with a
/// problem is not called more often. Hints are ignored before `ignore_hints_until`.
async fn wait(
    engine: &EngineState,
    pause: Duration,
    wake: Option<&Notifier>,
    polled: Result<Polled, StoreError>,
    ignore_hints_until: Instant,
) {
    let interval = Instant::now() + pause;
    let Ok(Polled { full, .. }) = polled else { return tokio::time::sleep_until(interval).await };
    let ignores_hints = ignore_hints_until > Instant::now();
    let interval = if ignores_hints { interval.min(ignore_hints_until) } else { interval };
    let hints = !full && !ignores_hints;
    let until =
        if full { interval } else { engine.next_probe().map_or(interval, |probe| probe.min(interval)) };
    tokio::select! {
        biased; // so that a simulation can be repeated
        () = tokio::time::sleep_until(until) => {}
        () = engine.queue.room(), if full => {}
        () = engine.poll_notifier.notified(), if hints => {}
        () = engine.retry_timer.next(), if hints => {}
        () = woken(wake), if hints => {}
    }
}

async fn woken(wake: Option<&Notifier>) {
    match wake {
        Some(wake) => wake.notified().await,
        None => std::future::pending().await,
    }
}

/// A claim that the store works on while the events of the one before are delivered. Dropping it stops it; the leases
/// of its events lapse then.
struct ClaimAhead(AbortOnDropHandle<Answer>);

impl ClaimAhead {
    /// Begins the next claim, if the last one shows that more events are due and the queue has room for both. It is a
    /// task of its own, so that it proceeds while the events of the last one are placed.
    fn begin(engine: &Arc<EngineState>, last: &Answer) -> Option<Self> {
        if engine.settings.is_strict() || engine.is_stopping() || !last.may_be_more() {
            return None;
        }
        let request = Request::behind(engine, last)?;
        let engine = Arc::clone(engine);
        Some(Self(AbortOnDropHandle::new(tokio::spawn(async move { request.send(&engine).await }))))
    }

    async fn answer(self) -> Answer {
        self.0.await.unwrap_or_else(|_| Answer::failed("the task of a claim ended"))
    }
}

/// The size of a claim.
#[derive(Clone, Copy, Debug)]
struct Request {
    events: usize,
    bytes: usize,
}

impl Request {
    /// A claim of what fits into the queue. `None` if there is no room.
    fn for_room(engine: &EngineState, room: Room) -> Option<Self> {
        (room.events > 0).then(|| Self {
            events: limit(engine, room.events),
            bytes: room.bytes.min(engine.claim_bytes.limit()),
        })
    }

    /// A claim of what fits beside the events of this one, which are not in the queue yet. `None` if that is too little
    /// for a claim of its own.
    fn behind(engine: &EngineState, last: &Answer) -> Option<Self> {
        let claimed = last.claimed.as_ref().ok()?;
        let held: usize = claimed.events.iter().map(|leased| leased.event.weight()).sum();
        let room = engine.queue.cold_room();
        let room = Room {
            events: room.events.saturating_sub(claimed.events.len()),
            bytes: room.bytes.saturating_sub(held),
        };
        let wanted = room.events >= wanted_room(engine) && room.bytes >= held;
        Self::for_room(engine, room).filter(|request| wanted && request.events > 0)
    }

    async fn send(self, engine: &EngineState) -> Answer {
        let asked_at = Instant::now();
        let claim = Claim::new(&engine.owner, engine.settings.lease.duration, self.events)
            .with_max_bytes(self.bytes)
            .with_order(engine.settings.order)
            .with_skip_recent(engine.settings.poller.skip_recent);
        let claimed = engine.call("claim", engine.store.claim(&claim)).await;
        match &claimed {
            Ok(claimed) if claimed.cut => {
                engine.claim_bytes.was_full(self.bytes, asked_at.elapsed(), engine.settings.store_timeout);
            }
            Err(StoreError::Timeout(_)) => engine.claim_bytes.was_lost(self.bytes),
            _ => {}
        }
        Answer { request: self, asked_at, claimed }
    }
}

/// What a claim returned.
struct Answer {
    request: Request,
    asked_at: Instant,
    claimed: Result<Claimed, StoreError>,
}

impl Answer {
    fn failed(reason: &'static str) -> Self {
        let claimed = Err(StoreError::backend("engine", reason));
        Self { request: Request { events: 0, bytes: 0 }, asked_at: Instant::now(), claimed }
    }

    /// How many rows were claimed.
    fn count(&self) -> usize {
        self.claimed.as_ref().map_or(0, |claimed| claimed.events.len() + claimed.malformed.len())
    }

    /// Whether the claim may have left rows that are due.
    fn may_be_more(&self) -> bool {
        let cut = self.claimed.as_ref().is_ok_and(|claimed| claimed.cut);
        self.request.events > 0 && (self.count() >= self.request.events || cut)
    }
}

/// Polls once: claims what fits, places it, and brings parked events of reopened routes back.
pub(crate) async fn poll(engine: &EngineState) -> Result<Polled, StoreError> {
    let _alone = engine.polling.lock().await;
    match claim(engine).await {
        Some(answer) => take_in(engine, answer).await,
        None => Ok(Polled { full: true, ..Polled::default() }),
    }
}

/// The same, and begins the next claim before it places the events. Takes the claim that was begun by the last call.
/// The caller holds the lock.
async fn poll_ahead(engine: &Arc<EngineState>, next: &mut Option<ClaimAhead>) -> Result<Polled, StoreError> {
    let answer = match next.take() {
        Some(ahead) => Some(ahead.answer().await),
        None => claim(engine).await,
    };
    let Some(answer) = answer else { return Ok(Polled { full: true, ..Polled::default() }) };
    *next = ClaimAhead::begin(engine, &answer);
    take_in(engine, answer).await
}

/// Claims what fits. `None` if there is no room, or, in strict mode, if an event is still on its way.
async fn claim(engine: &EngineState) -> Option<Answer> {
    if engine.settings.is_strict() && !engine.is_quiet() {
        return None;
    }
    engine.queue.admit_again();
    let request = Request::for_room(engine, engine.queue.cold_room())?;
    Some(request.send(engine).await)
}

/// Places the events of a claim, and brings parked events of reopened routes back.
async fn take_in(engine: &EngineState, answer: Answer) -> Result<Polled, StoreError> {
    let (count, full_batch) = (answer.count(), answer.may_be_more());
    let claimed = answer.claimed?;
    let suspects = claimed.parked.contains(&ParkReason::Suspect.to_string());
    let placed = place(engine, claimed, answer.asked_at + engine.settings.lease.duration).await;
    let mut unparked = unpark(engine).await?;
    unpark_others(engine).await?;
    if suspects && engine.queue.wants_suspect() {
        unparked += u64::from(unpark_one(engine, ParkReason::Suspect).await?);
    }
    // A backlog of other routes must not delay a probe for long.
    let overdue = engine.next_probe().is_some_and(|at| at + PROBE_OVERDUE_AFTER <= Instant::now());
    let probing = (!full_batch || overdue) && find_probes(engine).await?;
    Ok(Polled {
        claimed: count,
        again: !placed.full && (full_batch || unparked > 0 || probing),
        full: placed.full,
        all_parked: placed.all_parked,
    })
}

/// Brings back one parked event for each route whose probe is due and has no event yet. Returns whether any was found.
async fn find_probes(engine: &EngineState) -> Result<bool, StoreError> {
    let mut found = false;
    for route in engine.routes_to_probe() {
        // An event whose probe failed is used again only if no other event of the route is parked.
        let [waiting, probed] = ParkReason::of_route(engine.route_name(route));
        if unpark_one(engine, waiting).await? || unpark_one(engine, probed).await? {
            found = true;
        } else {
            engine.breaker(route, |breaker| breaker.postpone_probe(Instant::now()));
        }
    }
    Ok(found)
}

async fn unpark_one(engine: &EngineState, reason: ParkReason<'_>) -> Result<bool, StoreError> {
    Ok(engine.unpark(&reason.to_string(), 1).await? > 0)
}

/// How many events to claim. While every route is closed, events are claimed only to find a probe. In strict mode this
/// already applies while any route is closed, because no event may be overtaken.
fn limit(engine: &EngineState, room: usize) -> usize {
    let batch = rounded_limit(engine.settings.poller.batch.min(room), engine.settings.poller.batch);
    let closed = engine.closed_routes();
    let all_closed = closed > 0 && closed == engine.routes.entries().len();
    if all_closed || (closed > 0 && engine.settings.is_strict()) {
        return match engine.routes_to_probe().len() {
            0 => 0,
            // With one closed route, its first event is the probe. With several, the event for the probe may be behind
            // other events.
            1 if closed == 1 => 1,
            _ if engine.settings.is_strict() => 1,
            _ => batch,
        };
    }
    batch
}

/// Brings parked events of reopened routes back, as many as there is room for.
async fn unpark(engine: &EngineState) -> Result<u64, StoreError> {
    let mut total = 0;
    for route in engine.reopened_routes() {
        let limit = rounded_limit(engine.queue.cold_room_of(route).min(MAX_UNPARKED_ROWS), MAX_UNPARKED_ROWS);
        if limit == 0 {
            // Tries again when the route has drained.
            engine.set_crowded(route);
            continue;
        }
        let guard = engine.begin_unpark(route);
        let mut all = true;
        for reason in ParkReason::of_route(engine.route_name(route)) {
            let rows = engine.unpark(&reason.to_string(), limit).await?;
            total += rows;
            all &= rows < limit as u64;
        }
        if all {
            guard.got_all();
        }
    }
    Ok(total)
}

/// Brings back parked rows whose park reason names a route that this engine does not have, once for each name: the
/// route may have been renamed, or the event may have another route now. One page per second, because another engine
/// that has the route and finds it closed may park the events again.
async fn unpark_others(engine: &EngineState) -> Result<(), StoreError> {
    let limit = rounded_limit(engine.queue.cold_room().events.min(MAX_UNPARKED_ROWS), MAX_UNPARKED_ROWS);
    let Some(name) = engine.other_parked(Instant::now()).filter(|_| limit > 0) else { return Ok(()) };
    let rows = engine.unpark(&name, limit).await?;
    if rows < limit as u64 {
        engine.brought_back(name);
    }
    engine.retry_timer.add(Instant::now() + OTHERS_UNPARK_INTERVAL);
    if rows > 0 {
        engine.poll_notifier.notify();
    }
    Ok(())
}

/// The whole batch, or the next smaller power of two. Stores write the limit into their statements, and a driver's
/// cache should not fill with one statement per number.
fn rounded_limit(wanted: usize, batch: usize) -> usize {
    match wanted {
        0 => 0,
        _ if wanted >= batch => batch,
        _ => 1 << wanted.ilog2(),
    }
}
