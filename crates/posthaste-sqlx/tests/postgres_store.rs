//! Tests of the PostgreSQL store and its Writer, in one program because linking takes most of the time.
#![cfg(feature = "postgres")]

#[allow(clippy::unwrap_used, reason = "all of it is tests")]
mod cases {
    pub(crate) mod adopt;
    pub(crate) mod cancel;
    pub(crate) mod client_row_times;
    pub(crate) mod client_rows;
    pub(crate) mod conformance;
    pub(crate) mod diagnose;
    pub(crate) mod foreign;
    pub(crate) mod foreign_engine;
    pub(crate) mod foreign_open;
    pub(crate) mod grants;
    pub(crate) mod leases;
    pub(crate) mod open;
    pub(crate) mod payloads;
    pub(crate) mod purge;
    pub(crate) mod refused_commit;
    pub(crate) mod server_cancel;
    pub(crate) mod server_errors;
    pub(crate) mod writer;
    pub(crate) mod writer_conformance;
}

mod postgres {
    pub(crate) mod adopt;
    mod archive_partitions;
    mod broken_commits;
    mod claim_sweeps;
    pub(crate) mod client_rows;
    mod conformance;
    pub(crate) mod database;
    mod diagnose;
    pub(crate) mod foreign;
    pub(crate) mod foreign_open;
    pub(crate) mod grants;
    mod heap_only_claims;
    mod open;
    mod pgbouncer;
    mod query_timeout;
    mod wake;
    mod writer;

    mod cancel {
        crate::cases::cancel::cancel_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
        crate::cases::server_cancel::server_cancel_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod foreign_engine {
        crate::cases::foreign_engine::foreign_engine_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod leases {
        crate::cases::leases::lease_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod payloads {
        crate::cases::payloads::payload_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod purge {
        crate::cases::purge::purge_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod server_errors {
        crate::cases::server_errors::server_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
    }

    mod writer_conformance {
        use crate::cases::writer_conformance::SqlxHarness;
        posthaste::writer_conformance!(
            SqlxHarness::new().await,
            #[ignore = "needs PostgreSQL: cargo xtask test"]
        );
    }
}

mod support;

// The names under which the cases refer to the modules of their database.
use postgres::{adopt, client_rows, database, foreign, foreign_open, grants};
