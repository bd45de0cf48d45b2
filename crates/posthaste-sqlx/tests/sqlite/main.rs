//! The SQLite store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "sqlite")]

mod adopt;
mod cancel;
mod conformance;
mod diagnose;
mod engine;
mod foreign_rows;
mod open;
mod payloads;
mod support;
mod writer;
mod writer_conformance;
