//! Futures that are dropped half way, on MySQL and MariaDB.
#![cfg(feature = "mysql")]

#[macro_use]
#[path = "cases/cancel.rs"]
mod cases;
mod mysql_support;

use mysql_support as db;

cancel_tests!("needs MariaDB: cargo xtask test");
