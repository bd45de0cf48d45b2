//! Several nodes, each a process of its own, on one PostgreSQL table, and whatever else is judged by the
//! clock. A program of its own: other tests would take the cores from it.
#![cfg(feature = "postgres")]

#[macro_use]
#[path = "../cases/nodes.rs"]
mod cases;
mod faults;
#[path = "../nodes/mod.rs"]
mod nodes;
mod restart;
#[path = "../postgres/support/mod.rs"]
mod support;

node_tests!("needs PostgreSQL: cargo xtask test");
