//! Traces through the outbox.

/// What is captured at a write, and what a destination sends on.
mod context;
/// What a tracing system shows of it.
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
