//! Tracing spans of a delivery: one for the call of the destination, and one for each event.

#[cfg(feature = "opentelemetry")]
mod otel;

use tracing::Span;
use tracing::field::{self, Empty};

#[cfg(feature = "opentelemetry")]
use otel::start_deliveries;

use crate::destination::{Delivery, Outcome};

/// The target of these spans, for log filters.
const SPAN_TARGET: &str = "posthaste::dispatch";

/// The spans that are open while a destination is called.
pub(super) struct DeliverySpans {
    call: Span,
    /// One per event, where OpenTelemetry is listening.
    deliveries: Vec<Span>,
}

impl DeliverySpans {
    /// Opens the spans, if a subscriber wants them, and puts their context into the deliveries.
    pub(super) fn start(
        outbox: &str,
        route: &str,
        destination: Option<&str>,
        batch: &mut [Delivery],
    ) -> Self {
        let only = if let [only] = &*batch { Some(only) } else { None };
        let call = tracing::debug_span!(
            target: SPAN_TARGET,
            // The task that polls the worker is not the cause of the delivery.
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

    /// The span in which the destination is called. For a single event it is the event's own span, so that whatever a
    /// handler does belongs to the trace in which the event was written.
    pub(super) fn innermost(&self) -> Span {
        match self.deliveries.as_slice() {
            [only] if !only.is_disabled() => only.clone(),
            _ => self.call.clone(),
        }
    }

    /// Closes the spans and marks those that failed.
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

/// Without OpenTelemetry there are no spans per event.
#[cfg(not(feature = "opentelemetry"))]
fn start_deliveries(_: &Span, _: &mut [Delivery]) -> Vec<Span> {
    Vec::new()
}

fn mark_failed(span: &Span) {
    span.record("otel.status_code", "ERROR");
}
