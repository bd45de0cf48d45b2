//! Tests of the Writer on tokio-postgres, in one program because linking takes most of the build time.
#![cfg(feature = "deadpool")]

mod cancel;
mod conformance;
mod grants;
mod round_trips;
mod support;
mod writer;
