//! A worker: takes events from the queue, calls the destinations, and hands the outcomes to the settler.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::attempt::Attempt;
use super::queued_event::QueuedEvent;
use super::spans::DeliverySpans;
use super::{EngineState, lease_renewer, verdict};
use crate::destination::{Delivery, OnTimeout, Outcome};
use crate::error::BoxError;
use crate::route::{RouteEntry, RouteTarget};
use crate::store::{Lease, Settlement, Verdict};

/// How long a suspect is put off if its start could not be counted.
const UNCOUNTED_START_DELAY: Duration = Duration::from_secs(1);

/// Runs until the queue stops its workers.
pub(crate) async fn run(engine: Arc<EngineState>) {
    while let Some(items) = engine.queue.take().await {
        let Some(route) = items.first().map(|item| item.route) else { continue };
        engine.reopen_if_drained(route);
        let _running = Running { engine: &engine, route, bytes: items.iter().map(QueuedEvent::weight).sum() };
        if AssertUnwindSafe(work(&engine, route, &items)).catch_unwind().await.is_err() {
            // Panics of destinations and interceptors are caught where they are called, so this is a bug in the engine.
            // The leases lapse and the events are claimed again.
            tracing::error!(outbox = %engine.settings.name, "a worker panicked; it goes on with the next event");
            engine.inflight.forget(items.iter().map(QueuedEvent::row));
        }
    }
}

/// Marks a delivery of a route as running. Ends it when dropped, so also when the worker is cancelled.
struct Running<'a> {
    engine: &'a EngineState,
    route: usize,
    bytes: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(next_suspect) = self.engine.queue.finished(self.route, self.bytes) {
            self.engine.retry_timer.add(next_suspect);
        }
        // The bytes of the events are free from here on, not from when they were taken from the queue.
        self.engine.reopen_if_drained(self.route);
    }
}

async fn work(engine: &EngineState, route: usize, items: &[QueuedEvent]) {
    let mut work = start(engine, items);
    if engine.is_closed(route) {
        let may_go = |item: &QueuedEvent| item.probe && !engine.is_paused(route);
        let (probe, others): (Vec<_>, Vec<_>) = work.into_iter().partition(|(item, _)| may_go(item));
        engine.park_or_give_back(route, others.into_iter().map(|(_, lease)| lease).collect());
        work = probe;
    }
    if work.is_empty() || !count_suspect(engine, &work).await {
        return;
    }
    let started = Instant::now();
    for (item, _) in &work {
        engine.metrics.routes[route].latency.record(started.duration_since(item.since).as_secs_f64());
    }
    let attempts = deliver(engine, route, &work).await;
    engine.metrics.routes[route].duration.record(started.elapsed().as_secs_f64());
    let settlements = work
        .into_iter()
        .zip(attempts)
        .map(|((item, lease), attempt)| verdict::of(engine, item, engine.inflight.current(lease), attempt))
        .collect();
    engine.write_back.settle(settlements).await;
}

/// The events that this engine still holds. Another node has the others, or will get them.
fn start<'a>(engine: &EngineState, items: &'a [QueuedEvent]) -> Vec<(&'a QueuedEvent, Lease)> {
    let now = Instant::now();
    let mut work = Vec::with_capacity(items.len());
    for item in items {
        match engine.inflight.start(item.id(), item.seq, now) {
            Some(lease) => work.push((item, lease)),
            None => engine.metrics.lease_conflicts.increment(1),
        }
    }
    work
}

/// How long the event is put off. It is not tried again immediately, because the store has a problem. In strict mode
/// the event has to stay due, or later events would overtake it; so the worker waits instead.
async fn uncounted_start_delay(engine: &EngineState) -> Duration {
    if !engine.settings.is_strict() {
        return UNCOUNTED_START_DELAY;
    }
    tokio::time::sleep(UNCOUNTED_START_DELAY).await;
    Duration::ZERO
}

/// Counts the start of a suspect in the store before it begins. Returns `false` if that failed; the event must not be
/// delivered then, because a start that is not counted could kill processes without end.
async fn count_suspect(engine: &EngineState, work: &[(&QueuedEvent, Lease)]) -> bool {
    let Some((item, lease)) = work.first().filter(|(item, _)| item.is_suspect()) else { return true };
    let leases = std::slice::from_ref(lease);
    match lease_renewer::renew(engine, leases, true).await {
        Some(held) if held.contains(lease) => {
            tracing::warn!(
                outbox = %engine.settings.name,
                event_id = %item.id(),
                lost_leases = item.lost_leases,
                "this event may crash its engine: it is delivered alone"
            );
            return true;
        }
        Some(_) => {
            engine.metrics.lease_conflicts.increment(1);
            engine.inflight.forget([item.row()]);
        }
        None => {
            // The start may have been counted although the reply was lost. This settlement takes it back: starts that
            // did not happen must not add up to a DEAD event.
            let delay = uncounted_start_delay(engine).await;
            let error = "the store did not confirm that it counted this start, so the delivery did not begin"
                .to_owned();
            let verdict = Verdict::Unreachable { error, delay, park: None, give_up_after: None };
            let settlement = Settlement::new(lease.clone(), verdict);
            engine.write_back.settle(vec![settlement]).await;
        }
    }
    false
}

/// Calls the interceptors, then every destination that does not have the event yet, then the interceptors again.
async fn deliver(engine: &EngineState, route: usize, work: &[(&QueuedEvent, Lease)]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = work
        .iter()
        .map(|(item, _)| {
            intercept_before(engine, &item.delivery).map_or_else(Attempt::default, Attempt::refused)
        })
        .collect();
    match engine.routes.get(route) {
        Some(entry) => call_all(engine, entry, work, &mut attempts).await,
        None => attempts.iter_mut().filter(|attempt| !attempt.is_refused()).for_each(|attempt| {
            attempt.add(None, Outcome::Dead("no route".to_owned()));
        }),
    }
    for ((item, _), attempt) in work.iter().zip(&attempts) {
        intercept_after(engine, &item.delivery, attempt.outcome());
    }
    attempts
}

async fn call_all(
    engine: &EngineState,
    route: &RouteEntry,
    work: &[(&QueuedEvent, Lease)],
    attempts: &mut [Attempt],
) {
    let fan_out = route.targets.len() > 1;
    for target in &route.targets {
        let is_missing = |item: &QueuedEvent| !fan_out || !item.progress.contains(&target.name);
        let wanted =
            |(item, attempt): &(&QueuedEvent, &mut Attempt)| !attempt.is_refused() && is_missing(item);
        let pairs = work.iter().map(|(item, _)| *item);
        let mut batch: Vec<Delivery> = pairs
            .clone()
            .zip(attempts.iter_mut())
            .filter(wanted)
            .map(|(item, _)| item.delivery.clone())
            .collect();
        if batch.is_empty() {
            continue;
        }
        let destination = fan_out.then_some(target.name.as_str());
        let spans = DeliverySpans::start(&engine.settings.name, &route.name, destination, &mut batch);
        let outcomes = call(engine, route, target, &batch).instrument(spans.innermost()).await;
        spans.end(&outcomes);
        for ((_, attempt), outcome) in pairs.zip(attempts.iter_mut()).filter(wanted).zip(outcomes) {
            attempt.add(destination, outcome);
        }
    }
}

/// Calls a destination, with its timeout, and turns a panic into failed attempts.
async fn call(
    engine: &EngineState,
    route: &RouteEntry,
    target: &RouteTarget,
    batch: &[Delivery],
) -> Vec<Outcome> {
    let settings = &engine.settings;
    let limit = route.timeout_of(target, settings.handler_timeout, settings.publish_timeout);
    // `deliver` is called inside the block, so that a panic before its first await is caught too.
    let delivery = AssertUnwindSafe(async { target.destination.deliver(batch).await }).catch_unwind();
    match timeout(limit, delivery).await {
        Ok(Ok(outcomes)) => complete(outcomes, batch.len()),
        Ok(Err(panic)) => {
            let text = format!("the destination panicked: {}", panic_text(panic.as_ref()));
            every(batch.len(), || Outcome::retry(text.clone()))
        }
        Err(_) => {
            let text = format!("no reply within {limit:?}");
            match target.profile.on_timeout {
                OnTimeout::Retry => every(batch.len(), || Outcome::retry(text.clone())),
                OnTimeout::Unreachable => every(batch.len(), || Outcome::no_answer(text.clone())),
            }
        }
    }
}

/// Adjusts the number of outcomes. Events for which a destination returned none count as failed.
fn complete(mut outcomes: Vec<Outcome>, expected: usize) -> Vec<Outcome> {
    let answered = outcomes.len();
    outcomes.truncate(expected);
    while outcomes.len() < expected {
        outcomes.push(Outcome::retry(format!(
            "the destination returned {answered} outcomes for {expected} events"
        )));
    }
    outcomes
}

fn every(count: usize, outcome: impl Fn() -> Outcome) -> Vec<Outcome> {
    (0..count).map(|_| outcome()).collect()
}

/// The failure of the first interceptor that refuses the delivery.
fn intercept_before(engine: &EngineState, delivery: &Delivery) -> Option<Outcome> {
    for interceptor in &engine.interceptors {
        let error: BoxError = match catch_unwind(AssertUnwindSafe(|| interceptor.before(delivery))) {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(panic) => format!("an interceptor panicked: {}", panic_text(panic.as_ref())).into(),
        };
        return Some(error.into());
    }
    None
}

fn intercept_after(engine: &EngineState, delivery: &Delivery, outcome: &Outcome) {
    for interceptor in engine.interceptors.iter().rev() {
        if catch_unwind(AssertUnwindSafe(|| interceptor.after(delivery, outcome))).is_err() {
            tracing::error!(event_id = %delivery.id(), "an interceptor panicked after a dispatch; the outcome is kept");
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
