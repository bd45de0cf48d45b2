//! From a destination's outcome to what the store shall do.

use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::attempt::Attempt;
use super::breaker::{Advice, Failed};
use super::queue::Item;
use crate::config::Settings;
use crate::destination::{Outcome, Unreachable};
use crate::error::{cut_error, error_text};
use crate::route::{NO_ROUTE, probed};
use crate::store::{Lease, Settlement, Verdict};

/// How long an event waits that was a probe in vain.
const AFTER_PROBE: Duration = Duration::from_secs(30);

/// Tells the route's breaker what happened, and decides.
pub(super) fn of(shared: &Shared, item: &Item, lease: Lease, mut attempt: Attempt) -> Settlement {
    let delivered = std::mem::take(&mut attempt.delivered);
    let refused = attempt.is_refused();
    let outcome = attempt.into_outcome();
    if !refused {
        tell_breaker(shared, item, &outcome);
    }
    let verdict = match outcome {
        Outcome::Done => Verdict::Done,
        Outcome::Defer(delay) => Verdict::Deferred { delay: bounded(delay) },
        Outcome::Retry(error) => {
            Verdict::Failed { error: error_text(error.as_ref()), backoff: shared.settings.retry.backoff() }
        }
        Outcome::RetryAfter(delay, error) => Verdict::Failed {
            error: error_text(error.as_ref()),
            backoff: shared.settings.retry.backoff_of(bounded(delay)),
        },
        Outcome::Dead(_) if item.route == shared.routes.unroutable() && !refused => no_route(shared, item),
        Outcome::Dead(reason) | Outcome::Unsendable(reason) => Verdict::Dead { reason: cut_error(reason) },
        Outcome::Busy(busy) => Verdict::Deferred { delay: busy.retry_after.unwrap_or_default() },
        Outcome::Unreachable(unreachable) => not_there(shared, item, &unreachable),
    };
    log_failure(shared, item, &verdict);
    let delivered = if verdict == Verdict::Done { Vec::new() } else { delivered };
    Settlement { lease, verdict, delivered }
}

/// Without the error's text, which may quote the payload: the row has it.
fn log_failure(shared: &Shared, item: &Item, verdict: &Verdict) {
    let what = match verdict {
        Verdict::Failed { .. } => "attempt failed; the row says why",
        Verdict::Dead { .. } => "event can never be delivered; the row says why",
        _ => return,
    };
    tracing::warn!(
        outbox = %shared.settings.name,
        event_id = %item.id(),
        event_type = item.delivery.event_type(),
        route = shared.route_name(item.route),
        attempt = item.delivery.attempt,
        "{what}"
    );
}

/// Any answer shows that the destination is there.
fn tell_breaker(shared: &Shared, item: &Item, outcome: &Outcome) {
    let closed = match outcome {
        Outcome::Unreachable(_) => return,
        Outcome::Done => shared.breaker(item.route, |breaker| breaker.delivered(item.id())),
        _ => shared.breaker(item.route, super::breaker::Breaker::answered),
    };
    if closed == Some(true) {
        shared.route_reopened(item.route);
    }
}

fn not_there(shared: &Shared, item: &Item, unreachable: &Unreachable) -> Verdict {
    shared.metrics.unreachable.increment(1);
    let error = error_text(unreachable.error.as_ref());
    if shared.settings.ordered() {
        // Due at once: claims go by insertion, so it stays the first, and nothing overtakes it
        // because nothing is claimed while its route is closed.
        shared.breaker(item.route, |breaker| breaker.open(Instant::now()));
        shared.halt();
        shared.note_breaker(item.route);
        return Verdict::Unreachable { error, delay: Duration::ZERO, park: None, give_up_after: None };
    }
    if shared.is_stopping() {
        // Whoever comes after this engine sees for itself. Parked, the event would wait for one that is gone.
        return Verdict::Unreachable { error, delay: Duration::ZERO, park: None, give_up_after: None };
    }
    let failed = Failed { connection: unreachable.connection_failed, probe: item.probe };
    let advice = shared.breaker(item.route, |breaker| breaker.unreachable(item.id(), failed, Instant::now()));
    shared.note_breaker(item.route);
    let retry = &shared.settings.retry;
    match advice {
        Some(Advice::Park) => Verdict::Unreachable {
            error,
            delay: Settings::PARK,
            park: Some(shared.route_name(item.route).to_owned()),
            give_up_after: None,
        },
        Some(Advice::ParkApart) => Verdict::Unreachable {
            error,
            delay: AFTER_PROBE,
            park: Some(probed(shared.route_name(item.route))),
            give_up_after: None,
        },
        Some(Advice::StandAside) => {
            Verdict::Unreachable { error, delay: AFTER_PROBE, park: None, give_up_after: None }
        }
        Some(Advice::Postpone(times)) => {
            Verdict::Unreachable { error, delay: retry.delay(times), park: None, give_up_after: None }
        }
        Some(Advice::Spend) | None => Verdict::Failed { error, backoff: retry.backoff() },
    }
}

/// In a rolling deploy an old node may claim a new type: it leaves it to the others for a while.
fn no_route(shared: &Shared, item: &Item) -> Verdict {
    let grace = shared.settings.no_route_grace;
    let what = format!("{}:{}", item.delivery.aggregate_type(), item.delivery.event_type());
    if shared.unroutable_since(item.id()).elapsed() >= grace {
        shared.forget_unroutable(item.id());
        let reason =
            format!("no route for {what}: add one for this aggregate and event type, then replay it");
        return Verdict::Dead { reason: cut_error(reason) };
    }
    // A random step: with a fixed one, a multiple of the poll interval, the same node always wins.
    let step = (grace / 20).clamp(Duration::from_secs(1), Duration::from_secs(30));
    let delay = step.mul_f64(0.5 + fastrand::f64()).min(grace);
    let error = cut_error(format!("no route for {what} on this node: waiting for a node that has one"));
    // Parked, so that this node does not come back for it to the millisecond, before all others.
    Verdict::Unreachable { error, delay, park: Some(NO_ROUTE.to_owned()), give_up_after: None }
}

/// A handler may ask for any delay; a row can wait for a year.
fn bounded(delay: Duration) -> Duration {
    delay.min(crate::retry::RetryPolicy::LONGEST_DELAY)
}
