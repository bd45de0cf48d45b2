//! Traces through the outbox. A program of its own: its tests listen to `tracing`, which remembers for the
//! whole process what somebody wants to hear.

/// What is captured at a write, and what a destination sends on.
mod context;
/// What a tracing system shows of it.
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
