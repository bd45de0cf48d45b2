//! The Writer on rusqlite. One program for all of it: linking it is most of the work.

mod conformance;
mod writer;
