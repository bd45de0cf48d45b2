//! The MySQL and MariaDB store and its Writer. One program for all of them: linking it is most of the work.
#![cfg(feature = "mysql")]

#[macro_use]
mod cases {
    #[macro_use]
    pub(crate) mod adopt;
    #[macro_use]
    pub(crate) mod cancel;
    pub(crate) mod conformance;
    #[macro_use]
    pub(crate) mod diagnose;
    #[macro_use]
    pub(crate) mod foreign;
    #[macro_use]
    pub(crate) mod foreign_engine;
    #[macro_use]
    pub(crate) mod foreign_open;
    #[macro_use]
    pub(crate) mod grants;
    #[macro_use]
    pub(crate) mod open;
    #[macro_use]
    pub(crate) mod payloads;
    #[macro_use]
    pub(crate) mod purge;
    #[macro_use]
    pub(crate) mod rows;
    #[macro_use]
    pub(crate) mod server;
    #[macro_use]
    pub(crate) mod server_rows;
    #[macro_use]
    pub(crate) mod store_cancel;
    #[macro_use]
    pub(crate) mod writer;
    pub(crate) mod writer_conformance;
}

mod mysql {
    pub(crate) mod adopt;
    mod conformance;
    pub(crate) mod database;
    mod diagnose;
    pub(crate) mod foreign;
    pub(crate) mod foreign_open;
    pub(crate) mod grants;
    mod locked;
    mod open;
    mod parked;
    pub(crate) mod rows;
    mod writer;

    mod cancel {
        cancel_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
        store_cancel_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
    }

    mod foreign_engine {
        foreign_engine_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
    }

    mod payloads {
        payload_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
    }

    mod purge {
        purge_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
    }

    mod server {
        server_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
    }

    mod writer_conformance {
        use crate::cases::writer_conformance::SqlxHarness;
        posthaste::writer_conformance!(
            SqlxHarness::new().await,
            #[ignore = "needs MariaDB: cargo xtask test"]
        );
    }
}

mod support;

// The names by which the cases of every database know what is its own.
use mysql::{adopt, database, foreign, foreign_open, grants, rows};
