//! The MySQL and MariaDB store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "mysql")]

mod adopt;
mod cancel;
mod conformance;
mod diagnose;
mod grants;
mod layout;
mod layout_engine;
mod layout_open;
mod locked;
mod open;
mod parked;
mod payloads;
mod rows;
mod secrets;
mod support;
mod writer;
mod writer_conformance;
