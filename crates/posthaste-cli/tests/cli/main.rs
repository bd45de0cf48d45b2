//! The command line as a person or a script drives it: the real binary on real SQLite files.

mod change;
mod kit;
mod look;
mod migrate;
mod terminal;
mod trouble;
mod usage;
