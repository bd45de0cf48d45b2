//! The PostgreSQL store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "postgres")]

#[macro_use]
mod cases {
    #[macro_use]
    pub(crate) mod cancel;
    #[macro_use]
    pub(crate) mod foreign;
    #[macro_use]
    pub(crate) mod foreign_engine;
    #[macro_use]
    pub(crate) mod foreign_open;
    #[macro_use]
    pub(crate) mod payloads;
    #[macro_use]
    pub(crate) mod rows;
}

mod postgres {
    mod adopt;
    mod archive;
    mod cancel;
    mod commit;
    mod conformance;
    mod diagnose;
    pub(crate) mod foreign;
    mod foreign_engine;
    pub(crate) mod foreign_open;
    mod grants;
    mod open;
    mod operators;
    mod payloads;
    mod pgbouncer;
    mod rows;
    pub(crate) mod support;
    mod sweep;
    mod wake;
    mod writer;
    mod writer_conformance;
}

// The names by which the cases of every server know them.
use postgres::{foreign, foreign_open, support};
