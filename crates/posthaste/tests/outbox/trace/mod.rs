//! Traces of events through the outbox.

/// What a write captures, and what a destination sends on.
mod context;
/// What a tracing system receives.
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
