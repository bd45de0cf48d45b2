//! The PostgreSQL store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "postgres")]

mod adopt;
mod archive;
mod bouncer;
mod cancel;
mod commit;
mod conformance;
mod diagnose;
mod grants;
mod layout;
mod layout_engine;
mod layout_open;
mod open;
mod operators;
mod payloads;
mod rows;
mod support;
mod sweep;
mod wake;
mod writer;
mod writer_conformance;
