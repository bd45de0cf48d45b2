//! Tests of the Writer on rusqlite, in one program because linking takes most of the build time.

mod conformance;
mod writer;
