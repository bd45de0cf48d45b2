//! The command line as a person or a script drives it: the real binary on real SQLite files, and on a
//! real PostgreSQL.

mod change;
mod kit;
mod look;
mod migrate;
mod postgres;
mod postgres_kit;
mod postgres_trouble;
mod terminal;
mod trouble;
mod usage;
