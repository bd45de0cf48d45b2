//! Tracing spans of a delivery: one for the call of the destination, and one for each event.

#[cfg(feature = "opentelemetry")]
mod otel;

use tracing::Span;
use tracing::field::{self, Empty};

#[cfg(feature = "opentelemetry")]
use otel::start_deliveries;

use crate::destination::{Delivery, Outcome};

/// The target of our spans, for a filter that wants them and nothing else.
const SPAN_TARGET: &str = "posthaste::dispatch";

/// The spans that are open while a destination is called.
pub(super) struct DeliverySpans {
    call: Span,
    /// One per event, where OpenTelemetry listens.
    deliveries: Vec<Span>,
}

impl DeliverySpans {
    /// Opens the spans, if anybody listens, and has their places in the traces sent on.
    pub(super) fn start(
        outbox: &str,
        route: &str,
        destination: Option<&str>,
        batch: &mut [Delivery],
    ) -> Self {
        let only = if let [only] = &*batch { Some(only) } else { None };
        let call = tracing::debug_span!(
            target: SPAN_TARGET,
            // Whoever happened to poll the worker is not its cause.
            parent: None,
            "posthaste.dispatch",
            otel.status_code = Empty,
            outbox,
            route,
            destination,
            events = batch.len(),
            event_id = only.map(|delivery| field::display(delivery.id())),
            event_type = only.map(|delivery| delivery.event_type()),
            attempt = only.map(|delivery| delivery.attempt),
        );
        let deliveries = start_deliveries(&call, batch);
        Self { call, deliveries }
    }

    /// What the destination is called in. With one event that is the event's own span, so that whatever a
    /// handler does belongs to the trace in which the event was written.
    pub(super) fn innermost(&self) -> Span {
        match self.deliveries.as_slice() {
            [only] if !only.is_disabled() => only.clone(),
            _ => self.call.clone(),
        }
    }

    /// Closes the spans, and marks those that failed.
    pub(super) fn end(self, outcomes: &[Outcome]) {
        if self.call.is_disabled() {
            return;
        }
        let has_failed = |outcome: &Outcome| !matches!(outcome, Outcome::Done { .. } | Outcome::Defer(_));
        if outcomes.iter().any(has_failed) {
            mark_failed(&self.call);
        }
        for (span, _) in self.deliveries.iter().zip(outcomes).filter(|(_, outcome)| has_failed(outcome)) {
            mark_failed(span);
        }
    }
}

/// Without OpenTelemetry nobody records the spans that would be sent on.
#[cfg(not(feature = "opentelemetry"))]
fn start_deliveries(_: &Span, _: &mut [Delivery]) -> Vec<Span> {
    Vec::new()
}

fn mark_failed(span: &Span) {
    span.record("otel.status_code", "ERROR");
}
