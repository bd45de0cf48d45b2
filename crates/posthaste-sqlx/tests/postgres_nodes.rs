//! Several nodes, each a process of its own, on one PostgreSQL table, and whatever else is judged by the
//! clock. A program of its own: other tests would take the cores from it.
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

// The name by which the cases of every database know it.
use postgres::database;

crate::cases::nodes::node_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
