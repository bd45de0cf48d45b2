//! The SQLite store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "sqlite")]

#[macro_use]
mod cases {
    #[macro_use]
    pub(crate) mod cancel;
    pub(crate) mod conformance;
    #[macro_use]
    pub(crate) mod diagnose;
    #[macro_use]
    pub(crate) mod open;
    #[macro_use]
    pub(crate) mod payloads;
    #[macro_use]
    pub(crate) mod purge;
    #[macro_use]
    pub(crate) mod refused_commit;
    #[macro_use]
    pub(crate) mod rows;
    #[macro_use]
    pub(crate) mod writer;
    pub(crate) mod writer_conformance;
}

mod sqlite {
    mod adopt;
    mod conformance;
    pub(crate) mod database;
    mod diagnose;
    mod engine;
    mod open;
    pub(crate) mod rows;
    mod writer;

    mod cancel {
        cancel_tests!();
    }

    mod payloads {
        payload_tests!();
    }

    mod purge {
        purge_tests!();
    }

    mod writer_conformance {
        use crate::cases::writer_conformance::SqlxHarness;
        posthaste::writer_conformance!(SqlxHarness::new().await);
    }
}

mod support;

// The names by which the cases of every database know what is its own.
use sqlite::{database, rows};
