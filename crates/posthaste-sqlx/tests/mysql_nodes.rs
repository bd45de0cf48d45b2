//! Several nodes, each a process of its own, on one MySQL or MariaDB table, and whatever else is judged by
//! the clock. A program of its own: other tests would take the cores from it.
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

// The name by which the cases of every database know it.
use mysql::database;

crate::cases::nodes::node_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
