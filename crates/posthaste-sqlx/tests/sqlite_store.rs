//! Tests of the SQLite store and its Writer, in one program because linking takes most of the time.
#![cfg(feature = "sqlite")]

#[allow(clippy::unwrap_used, reason = "all of it is tests")]
mod cases {
    pub(crate) mod adopt;
    pub(crate) mod cancel;
    pub(crate) mod client_rows;
    pub(crate) mod conformance;
    pub(crate) mod diagnose;
    pub(crate) mod leases;
    pub(crate) mod open;
    pub(crate) mod payloads;
    pub(crate) mod purge;
    pub(crate) mod refused_commit;
    pub(crate) mod writer;
    pub(crate) mod writer_conformance;
}

mod sqlite {
    pub(crate) mod adopt;
    pub(crate) mod client_rows;
    mod conformance;
    pub(crate) mod database;
    mod diagnose;
    mod engine;
    mod open;
    mod writer;

    mod cancel {
        crate::cases::cancel::cancel_tests!();
    }

    mod leases {
        crate::cases::leases::lease_tests!();
    }

    mod payloads {
        crate::cases::payloads::payload_tests!();
    }

    mod purge {
        crate::cases::purge::purge_tests!();
    }

    mod writer_conformance {
        use crate::cases::writer_conformance::SqlxHarness;
        posthaste::writer_conformance!(SqlxHarness::new().await);
    }
}

mod support;

// The names under which the cases refer to the modules of their database.
use sqlite::{adopt, client_rows, database};
