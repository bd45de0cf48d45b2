//! Tests with several node processes on one PostgreSQL table, and other tests that depend on time. They are a program
//! of their own, because other tests would compete for the cores.
#![cfg(feature = "postgres")]

#[allow(clippy::unwrap_used, reason = "all of it is tests")]
mod cases {
    pub(crate) mod nodes;
    pub(crate) mod restart;
}

mod nodes;

mod postgres {
    pub(crate) mod database;
    mod nodes {
        mod faults;
        mod restart;
    }
}

mod support;

// The name under which the cases refer to the module of their database.
use postgres::database;

crate::cases::nodes::node_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
