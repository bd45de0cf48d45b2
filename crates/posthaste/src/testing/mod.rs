//! Test doubles for services, stores and destinations that fail, wait or are slow on demand.
//!
//! Enable the feature `testing` in `[dev-dependencies]`. [`MemoryStore`](crate::MemoryStore) and
//! [`Recorder`](crate::Recorder) need no feature.

mod faulty_store;
mod gated_destination;
mod slow_destination;

pub use faulty_store::{Call, Fault, FaultyStore};
pub use gated_destination::{Gate, Gated};
pub use slow_destination::Slow;
