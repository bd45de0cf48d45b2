//! W3C trace context: carries the trace of a request through an event to its consumers.

mod capture;
#[cfg(feature = "opentelemetry")]
mod otel;

use std::fmt;

pub use capture::CaptureTrace;
#[cfg(feature = "opentelemetry")]
pub(crate) use otel::span_context;

use crate::event::{Event, Headers};

/// The header that identifies a trace and the span from which the message comes.
pub const TRACEPARENT: &str = "traceparent";

/// The header for additional data of tracing systems.
pub const TRACESTATE: &str = "tracestate";

/// A span in a trace, in the header format of the W3C recommendation *Trace Context*.
///
/// An event has one if it was written with the header `traceparent`, which [`CaptureTrace`] adds. Its deliveries have
/// another: the same trace with a span of their own, which destinations send on.
///
/// ```
/// use posthaste::trace::TraceContext;
///
/// let written = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None).unwrap();
/// let sent = written.next();
/// assert_eq!(sent.trace_id(), written.trace_id());
/// assert_ne!(sent.span_id(), written.span_id());
/// assert!(sent.is_sampled());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Box<str>>,
}

/// The recommendation allows vendors to cut a longer one.
const MAX_TRACESTATE_BYTES: usize = 512;

const SAMPLED_FLAG: u8 = 1;

impl TraceContext {
    /// A span in a trace; `None` if an id is zero, which means no trace.
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        let is_there = trace_id != 0 && span_id != 0;
        is_there.then(|| Self { trace_id, span_id, flags: u8::from(sampled), state: None })
    }

    /// Reads the two headers. `None` if `traceparent` is invalid; an invalid `tracestate` is ignored.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.trim().split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // A later version may have more parts, but its first four are the same.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        hex(version, 2)?;
        let (trace_id, span_id) = (hex(trace_id, 32)?, u64::try_from(hex(span_id, 16)?).ok()?);
        let flags = u8::try_from(hex(flags, 2)?).ok()?;
        let context = Self::new(trace_id, span_id, flags & SAMPLED_FLAG != 0)?;
        Some(context.with_state(tracestate.unwrap_or_default()))
    }

    /// The span in which this event was written, if its headers have one.
    pub fn of(event: &Event) -> Option<Self> {
        let headers: &Headers = event.headers();
        Self::parse(headers.get(TRACEPARENT)?, headers.get(TRACESTATE).map(String::as_str))
    }

    /// The same with this `tracestate`, if it is valid.
    pub fn with_state(mut self, state: &str) -> Self {
        let can_be_one = !state.is_empty()
            && state.len() <= MAX_TRACESTATE_BYTES
            && state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        self.state = can_be_one.then(|| state.into());
        self
    }

    /// The same trace, in a new span.
    pub fn next(&self) -> Self {
        self.in_span(fastrand::u64(1..))
    }

    /// The same trace, in this span.
    pub(crate) fn in_span(&self, span_id: u64) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// The trace, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The span, as 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED_FLAG != 0
    }

    /// The text of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// The text of the header `tracestate`; `None` unless the event had one.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())
    }
}

/// Reads this many hexadecimal digits, in lower case as the recommendation requires.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn headers_are_read_and_written_alike() {
        let context = TraceContext::parse(WRITTEN, Some("vendor=1")).expect("a context");
        assert_eq!(context.traceparent(), WRITTEN);
        assert_eq!(context.tracestate(), Some("vendor=1"));
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id(), "b7ad6b7169203331");
    }

    #[test]
    fn next_span_is_another_one_of_the_same_trace() {
        let context = TraceContext::parse(WRITTEN, Some("vendor=1")).expect("a context");
        let (first, second) = (context.next(), context.next());
        assert_ne!(first, second);
        assert_eq!(first.trace_id(), context.trace_id());
        assert_eq!(first.tracestate(), Some("vendor=1"));
        assert!(first.is_sampled());
    }

    #[test]
    fn later_versions_are_read_by_their_known_parts() {
        let later = format!("cc{}-more", &WRITTEN[2..]);
        assert_eq!(
            TraceContext::parse(&later, None).map(|context| context.traceparent()).as_deref(),
            Some(WRITTEN)
        );
    }

    #[test]
    fn invalid_traceparent_is_refused() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0🎉",
        ] {
            assert_eq!(TraceContext::parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn invalid_tracestate_is_ignored() {
        for state in ["", "a=\r\nx: y", "ü=1", &"x".repeat(MAX_TRACESTATE_BYTES + 1)] {
            let context = TraceContext::parse(WRITTEN, Some(state)).expect("a context");
            assert_eq!(context.tracestate(), None, "{state}");
        }
    }
}
