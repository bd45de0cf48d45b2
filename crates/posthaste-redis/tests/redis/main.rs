//! The Redis store on real servers. One program for all of them: linking it is most of the work.

mod conformance;
mod server;
mod support;
mod writer;
