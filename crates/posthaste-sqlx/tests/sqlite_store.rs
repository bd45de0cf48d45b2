//! The SQLite store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "sqlite")]

mod sqlite {
    mod adopt;
    mod cancel;
    mod conformance;
    mod diagnose;
    mod engine;
    mod open;
    mod payloads;
    mod rows;
    pub(crate) mod support;
    mod writer;
    mod writer_conformance;
}

use sqlite::support;
