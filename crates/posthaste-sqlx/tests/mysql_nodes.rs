//! Several nodes, each a process of its own, on one MySQL or MariaDB table.
#![cfg(feature = "mysql")]

#[macro_use]
#[path = "cases/nodes.rs"]
mod cases;
mod mysql_support;
mod nodes;

use mysql_support as db;

node_tests!("needs MariaDB: cargo xtask test");
