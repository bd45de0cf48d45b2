//! Tests with several node processes on one MySQL or MariaDB table, and other tests that depend on time. They are a
//! program of their own, because other tests would compete for the cores.
#![cfg(feature = "mysql")]

#[allow(clippy::unwrap_used, reason = "all of it is tests")]
mod cases {
    pub(crate) mod nodes;
    pub(crate) mod restart;
}

mod nodes;

mod mysql {
    pub(crate) mod database;
    mod nodes {
        mod contention;
        mod restart;
    }
}

mod support;

// The name under which the cases refer to the module of their database.
use mysql::database;

crate::cases::nodes::node_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
