//! Several nodes, each a process of its own, on one MySQL or MariaDB table, and whatever else is judged by
//! the clock. A program of its own: other tests would take the cores from it.
#![cfg(feature = "mysql")]

#[macro_use]
#[path = "../cases/nodes.rs"]
mod cases;
mod contention;
#[path = "../nodes/mod.rs"]
mod nodes;
mod restart;
#[path = "../mysql/support/mod.rs"]
mod support;

node_tests!("needs MariaDB: cargo xtask test");
