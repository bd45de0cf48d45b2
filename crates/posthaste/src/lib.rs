//! Posthaste: a transactional outbox.
//!
//! A service writes its events into its own database, inside its own transaction. Posthaste delivers every committed
//! event at least once, and never an event of a transaction that rolled back.
//!
//! # Layout
//!
//! - [`Event`](struct@Event) is what a service writes; a [`Store`] keeps it until it is delivered; a [`Destination`]
//!   receives it.
//! - [`Routes`] map events to destinations; [`Outbox`] runs the engine.
//! - [`writer`] is the part of a Writer that every driver shares; [`memory`] is the reference store.
//! - [`trace`] carries the trace of a request from the write to the consumers of the event.
//! - [`Admin`] is for operators' tools.
//! - `testing` (feature) has test doubles that fail, wait or are slow on demand.
//! - `conformance` (feature) is the suite that every store, Writer and destination must pass.

// The derive macro uses the public name of this crate, also in this crate's own tests.
extern crate self as posthaste;

pub mod admin;
pub mod builder;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod destination;
mod engine;
mod error;
mod event;
pub mod handler;
pub mod interceptor;
pub mod memory;
mod metrics;
mod mutex;
mod outbox;
mod recording_destination;
mod route;
mod row;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
pub mod trace;
pub mod writer;
mod writer_hook;

pub use admin::Admin;
pub use builder::Builder;
pub use config::{Config, ConfigError, Mode, RetryPolicy};
pub use destination::{
    Busy, Delivery, Destination, HandlerResult, IntoOutcome, OnTimeout, Outcome, Profile, RetryAfter, Source,
    Unreachable, Unrecoverable,
};
pub use error::{BoxError, CommitError, LAST_ERROR_MAX_LENGTH, StoreError, WriteError};
pub use event::{
    AggregateType, Event, EventBuilder, EventError, EventId, EventParts, EventType, GLOBAL, Headers,
    IdPolicy, Limits, TypedEvent,
};
pub use handler::{Handler, State, handler, handler_with};
pub use interceptor::Interceptor;
pub use memory::{MemoryStore, MemoryWriter};
pub use outbox::{Outbox, ShutdownReport, StartError};
/// Makes a type an event: see [`TypedEvent`].
pub use posthaste_macros::Event;
pub use recording_destination::Recorder;
pub use route::{Route, Routes};
pub use row::{EventDetail, EventRow, Status, decode_headers};
pub use store::Store;
pub use time::Timestamp;
pub use writer::Receipt;
pub use writer_hook::WriterHook;

/// Pages of this repository whose examples are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "testing")]
    #[doc = include_str!("../../../docs/testing-your-service.md")]
    struct TestingYourService;
    #[cfg(feature = "opentelemetry")]
    #[doc = include_str!("../../../docs/tracing.md")]
    struct Tracing;
    #[cfg(feature = "conformance")]
    #[doc = include_str!("../../../docs/writing-a-destination.md")]
    struct WritingADestination;
    #[cfg(feature = "conformance")]
    #[doc = include_str!("../../../docs/writing-a-store.md")]
    struct WritingAStore;
}
