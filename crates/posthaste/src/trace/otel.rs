//! Conversions between `TraceContext` and OpenTelemetry's types.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::TraceContext;

/// The current span of the caller.
pub(super) fn current() -> Option<TraceContext> {
    let place = |context: Context| read(context.span().span_context());
    place(Span::current().context()).or_else(|| place(Context::current()))
}

fn read(place: &SpanContext) -> Option<TraceContext> {
    let trace_id = u128::from_be_bytes(place.trace_id().to_bytes());
    let span_id = u64::from_be_bytes(place.span_id().to_bytes());
    let context = TraceContext::new(trace_id, span_id, place.is_sampled())?;
    Some(context.with_state(&place.trace_state().header()))
}

pub(crate) fn span_context(context: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace_id.to_be_bytes()),
        SpanId::from_bytes(context.span_id.to_be_bytes()),
        TraceFlags::new(context.flags),
        true,
        context.tracestate().and_then(|state| state.parse().ok()).unwrap_or_default(),
    )
}
