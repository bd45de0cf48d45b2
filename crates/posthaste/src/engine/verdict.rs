//! Verdicts: turns the outcome of a delivery into what the store writes.

use std::time::Duration;

use tokio::time::Instant;

use super::EngineState;
use super::attempt::Attempt;
use super::breaker::{Advice, Breaker, Failed};
use super::queued_event::QueuedEvent;
use crate::config::Settings;
use crate::destination::{Busy, Outcome, Unreachable};
use crate::error::{cut_error, error_text};
use crate::route::ParkReason;
use crate::store::{Lease, Settlement, Verdict};

/// The longest time for which an event waits after a probe that failed.
const MAX_PROBED_DELAY: Duration = Duration::from_secs(30);
/// The longest pause that a busy destination can ask for.
const MAX_BUSY_PAUSE: Duration = Duration::from_secs(3600);

/// Reports the outcome to the route's breaker and decides the settlement.
pub(super) fn of(engine: &EngineState, item: &QueuedEvent, lease: Lease, mut attempt: Attempt) -> Settlement {
    let delivered = std::mem::take(&mut attempt.delivered);
    let refused = attempt.is_refused();
    let outcome = attempt.into_outcome();
    if !refused {
        update_breaker(engine, item, &outcome);
    }
    let verdict = match outcome {
        Outcome::Done { .. } => Verdict::Done,
        Outcome::Defer(delay) => Verdict::Deferred { delay: bounded_delay(delay) },
        Outcome::Failed(error) => {
            Verdict::Failed { error: error_text(error.as_ref()), backoff: engine.settings.retry.backoff() }
        }
        Outcome::FailedWithDelay(delay, error) => Verdict::Failed {
            error: error_text(error.as_ref()),
            backoff: engine.settings.retry.backoff_of(bounded_delay(delay)),
        },
        Outcome::Dead(_) if item.route == engine.routes.unroutable() && !refused => {
            no_route_verdict(engine, item)
        }
        Outcome::Dead(reason) | Outcome::Unsendable(reason) => Verdict::Dead { reason: cut_error(reason) },
        Outcome::Busy(busy) => busy_verdict(engine, item, &busy),
        Outcome::Unreachable(unreachable) => unreachable_verdict(engine, item, &unreachable),
    };
    log_failure(engine, item, &verdict);
    let delivered = if verdict == Verdict::Done { Vec::new() } else { delivered };
    Settlement::new(lease, verdict).with_delivered(delivered)
}

/// Logs a failure without the error's text, which may quote the payload. The row has the text.
fn log_failure(engine: &EngineState, item: &QueuedEvent, verdict: &Verdict) {
    let what = match verdict {
        Verdict::Failed { .. } => "attempt failed; the row says why",
        Verdict::Dead { .. } => "event can never be delivered; the row says why",
        _ => return,
    };
    tracing::warn!(
        outbox = %engine.settings.name,
        event_id = %item.id(),
        event_type = item.delivery.event_type(),
        route = engine.route_name(item.route),
        attempt = item.delivery.attempt,
        "{what}"
    );
}

/// Reports the outcome to the breaker. Any reply except `Busy` shows that the destination can be reached.
fn update_breaker(engine: &EngineState, item: &QueuedEvent, outcome: &Outcome) {
    let closed = match outcome {
        Outcome::Unreachable(_) | Outcome::Busy(_) => return,
        // The destination was not called, so this probe showed nothing: another event has to be the probe.
        Outcome::Unsendable(_) if item.probe => {
            engine.breaker(item.route, |breaker| breaker.probe_again(Instant::now()));
            engine.poll_notifier.notify();
            return;
        }
        Outcome::Unsendable(_) => return,
        Outcome::Done { .. } => engine.breaker(item.route, |breaker| breaker.delivered(item.id())),
        _ => engine.breaker(item.route, Breaker::answered),
    };
    if closed == Some(true) {
        engine.route_reopened(item.route);
    }
}

fn unreachable_verdict(engine: &EngineState, item: &QueuedEvent, unreachable: &Unreachable) -> Verdict {
    engine.metrics.unreachable.increment(1);
    let error = error_text(unreachable.error.as_ref());
    let failed = Failed { connection: unreachable.connection_failed, probe: item.probe };
    let ask = |breaker: &mut Breaker| breaker.unreachable(item.id(), failed, Instant::now());
    match ask_breaker(engine, item, ask) {
        Some(Advice::Spend) => Verdict::Failed { error, backoff: engine.settings.retry.backoff() },
        advice => waiting_verdict(engine, item, error, advice),
    }
}

/// The destination is overloaded. That is not the event's fault, however often it happens; only time ends it.
fn busy_verdict(engine: &EngineState, item: &QueuedEvent, busy: &Busy) -> Verdict {
    engine.metrics.busy.increment(1);
    let error = error_text(busy.error.as_ref());
    let pause = busy.retry_after.unwrap_or_default().min(MAX_BUSY_PAUSE);
    let failed = Failed { connection: false, probe: item.probe };
    let ask = |breaker: &mut Breaker| breaker.busy(item.id(), failed, pause, Instant::now());
    let mut verdict = waiting_verdict(engine, item, error, ask_breaker(engine, item, ask));
    if let Verdict::Unreachable { delay, give_up_after, .. } = &mut verdict {
        // In strict mode the event has to stay due, or later events would overtake it.
        if !engine.settings.is_strict() {
            *delay = (*delay).max(pause);
        }
        *give_up_after = Some(engine.settings.busy_grace);
    }
    verdict
}

/// Reports to the breaker that an event could not be delivered. `None` if the event only has to be released: in strict
/// mode, where it stays the first, and while the engine stops.
fn ask_breaker(
    engine: &EngineState,
    item: &QueuedEvent,
    ask: impl FnOnce(&mut Breaker) -> Advice,
) -> Option<Advice> {
    if engine.settings.is_strict() {
        // No event overtakes it, because nothing is claimed while its route is closed.
        engine.breaker(item.route, |breaker| {
            ask(breaker);
            if !breaker.is_open() {
                breaker.open(Instant::now());
            }
        });
        engine.halt();
        engine.note_breaker(item.route);
        return None;
    }
    if engine.is_stopping() {
        // The next engine finds out for itself. Parked, the event would wait for an engine that is gone.
        return None;
    }
    let advice = engine.breaker(item.route, ask);
    engine.note_breaker(item.route);
    Some(advice.unwrap_or(Advice::Postpone(1)))
}

fn waiting_verdict(
    engine: &EngineState,
    item: &QueuedEvent,
    error: String,
    advice: Option<Advice>,
) -> Verdict {
    let route = engine.route_name(item.route);
    let (delay, park) = match advice {
        Some(Advice::Park) => (Settings::park_duration(), Some(ParkReason::Route(route))),
        Some(Advice::ParkProbed) => (probed_delay(), Some(ParkReason::Probed(route))),
        Some(Advice::PostponeProbed) => (probed_delay(), None),
        Some(Advice::Postpone(times)) => (engine.settings.retry.delay(times), None),
        Some(Advice::Spend) | None => (Duration::ZERO, None),
    };
    Verdict::Unreachable { error, delay, park: park.map(|reason| reason.to_string()), give_up_after: None }
}

/// Random, and not a multiple of the time between probes: otherwise the event would be due whenever this node sends its
/// next probe, and no other node would ever get it.
fn probed_delay() -> Duration {
    MAX_PROBED_DELAY.mul_f64(1.0 - fastrand::f64() / 6.0)
}

/// In a rolling deployment an old node may claim an event of a new type. For a while the old node leaves the event to
/// other nodes. The store knows how long that has been going on.
fn no_route_verdict(engine: &EngineState, item: &QueuedEvent) -> Verdict {
    let grace = engine.settings.no_route_grace;
    let (aggregate, event_type) = (item.delivery.aggregate_type(), item.delivery.event_type());
    let error = cut_error(format!(
        "no route for {aggregate}:{event_type}: add one for this aggregate and event type; an event that is \
         DEAD has to be replayed then"
    ));
    // A random step. With a fixed one that is a multiple of the poll interval, the same node would always claim it.
    let step = (grace / 20).clamp(Duration::from_secs(1), Duration::from_secs(30));
    let delay = step.mul_f64(0.5 + fastrand::f64()).min(grace);
    // Parked, because this node sets no timer for parked events: with one, it would poll at the very millisecond at
    // which the event is due, and claim it before any other node.
    let park = Some(ParkReason::NoRoute.to_string());
    Verdict::Unreachable { error, delay, park, give_up_after: Some(grace) }
}

/// A handler may ask for any delay. A row can wait for a year at most.
fn bounded_delay(delay: Duration) -> Duration {
    delay.min(crate::config::RetryPolicy::LONGEST_DELAY)
}
