//! Several nodes, each a process of its own, on one PostgreSQL table.
#![cfg(feature = "postgres")]

#[macro_use]
#[path = "cases/nodes.rs"]
mod cases;
mod nodes;
mod postgres_support;

use postgres_support as db;

node_tests!("needs PostgreSQL: cargo xtask test");
