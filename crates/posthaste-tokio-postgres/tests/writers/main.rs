//! The Writer on tokio-postgres. One program for all of it: linking it is most of the work.
#![cfg(feature = "deadpool")]

mod cancel;
mod conformance;
mod grants;
mod round_trips;
mod support;
mod writer;
