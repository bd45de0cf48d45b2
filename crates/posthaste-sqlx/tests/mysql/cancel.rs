//! Futures that are dropped half way, on MySQL and MariaDB.

#[macro_use]
#[path = "../cases/cancel.rs"]
mod cases;

cancel_tests!("needs MariaDB: cargo xtask test");
