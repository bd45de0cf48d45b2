//! The MySQL and MariaDB store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "mysql")]

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

mod mysql {
    mod adopt;
    mod cancel;
    mod conformance;
    mod diagnose;
    pub(crate) mod foreign;
    mod foreign_engine;
    pub(crate) mod foreign_open;
    mod grants;
    mod locked;
    mod open;
    mod parked;
    mod payloads;
    mod rows;
    mod secrets;
    pub(crate) mod support;
    mod writer;
    mod writer_conformance;
}

// The names by which the cases of every server know them.
use mysql::{foreign, foreign_open, support};
