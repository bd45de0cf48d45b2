//! A span per event for OpenTelemetry, in the trace in which the event was written.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::SPAN_TARGET;
use crate::destination::Delivery;
use crate::trace::{TraceContext, span_context};

/// Links the dispatch to the span in which each event was written, and starts a span per event in the event's own
/// trace. The event carries this span to its consumers, so that the parent they see exists. Returns one span per event,
/// disabled where the event's trace is not sampled; returns nothing if OpenTelemetry is not listening.
pub(super) fn start_deliveries(dispatch: &Span, batch: &mut [Delivery]) -> Vec<Span> {
    if dispatch.is_disabled() {
        return Vec::new();
    }
    let written: Vec<_> = batch.iter().map(|delivery| TraceContext::of(delivery)).collect();
    written.iter().flatten().for_each(|written| dispatch.add_link(span_context(written)));
    let dispatched = dispatch.context().span().span_context().clone();
    if !dispatched.is_valid() {
        return Vec::new();
    }
    let start = |(delivery, written): (&mut Delivery, Option<TraceContext>)| match written {
        Some(written) if written.is_sampled() => start_delivery(dispatch, &dispatched, delivery, &written),
        _ => Span::none(),
    };
    batch.iter_mut().zip(written).map(start).collect()
}

fn start_delivery(
    dispatch: &Span,
    dispatched: &SpanContext,
    delivery: &mut Delivery,
    written: &TraceContext,
) -> Span {
    // For logs a child of the dispatch, for OpenTelemetry a child of the write.
    let span = tracing::debug_span!(
        target: SPAN_TARGET,
        parent: dispatch,
        "posthaste.deliver",
        otel.kind = "producer",
        otel.status_code = Empty,
        event_id = %delivery.id(),
        event_type = delivery.event_type(),
        attempt = delivery.attempt,
    );
    let _ = span.set_parent(Context::new().with_remote_span_context(span_context(written)));
    span.add_link(dispatched.clone());
    let own = span.context().span().span_context().clone();
    // If a sampler dropped the span, its id would lead nowhere, so the event keeps the one that it has.
    if own.is_sampled() {
        let span_id = u64::from_be_bytes(own.span_id().to_bytes());
        delivery.trace = Some(written.in_span(span_id));
    }
    span
}
