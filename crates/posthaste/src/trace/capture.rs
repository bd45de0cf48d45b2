//! Trace capture: writes the trace of a request into the events that it writes.

use std::fmt;

use super::{TRACEPARENT, TRACESTATE, TraceContext};
use crate::error::BoxError;
use crate::event::{Event, Headers, Limits};
use crate::writer_hook::WriterHook;

/// A hook that adds the current trace context to every event, as the headers `traceparent` and `tracestate`.
///
/// An event that has one of the two headers already is not changed. Nothing is captured outside a trace, or if the
/// headers would exceed their [limits](Limits), because the event is worth more than its trace. So add this hook after
/// hooks that add headers of their own.
///
/// ```
/// use posthaste::trace::{CaptureTrace, TraceContext};
/// use posthaste::{MemoryStore, Outbox, Routes};
///
/// # fn trace_of_this_request() -> Option<TraceContext> { None }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), posthaste::StartError> {
/// let outbox = Outbox::builder(MemoryStore::new(), Routes::new()).single_node()
///     .hook(CaptureTrace::from_fn(trace_of_this_request))
///     .start()?;
/// # outbox.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct CaptureTrace {
    current: Box<dyn Fn() -> Option<TraceContext> + Send + Sync>,
}

impl CaptureTrace {
    /// Calls this function to get the current context, once per write and on the thread of the write.
    pub fn from_fn(current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        Self { current: Box::new(current) }
    }

    /// Takes the OpenTelemetry context of the current `tracing` span, or else the current one of OpenTelemetry itself.
    #[cfg(feature = "opentelemetry")]
    pub fn from_opentelemetry() -> Self {
        Self::from_fn(super::otel::current)
    }
}

impl WriterHook for CaptureTrace {
    fn before_write(&self, mut events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        if events.iter().any(has_none)
            && let Some(current) = (self.current)()
        {
            events.iter_mut().filter(|event| has_none(event)).for_each(|event| capture(event, &current));
        }
        Ok(events)
    }
}

impl fmt::Debug for CaptureTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CaptureTrace")
    }
}

fn has_none(event: &Event) -> bool {
    let headers = event.headers();
    !headers.contains_key(TRACEPARENT) && !headers.contains_key(TRACESTATE)
}

fn capture(event: &mut Event, current: &TraceContext) {
    let traceparent = current.traceparent();
    if !has_room(event.headers(), TRACEPARENT, &traceparent) {
        return;
    }
    let headers = event.headers_mut();
    headers.insert(TRACEPARENT.to_owned(), traceparent);
    // If there is no room for it, the trace continues without it.
    if let Some(state) = current.tracestate().filter(|state| has_room(headers, TRACESTATE, state)) {
        headers.insert(TRACESTATE.to_owned(), state.to_owned());
    }
}

fn has_room(headers: &Headers, name: &str, value: &str) -> bool {
    let used: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    headers.len() < Limits::HEADERS && used + name.len() + value.len() <= Limits::HEADER_BYTES
}
