//! Events as MySQL and MariaDB keep them.
#![cfg(feature = "mysql")]

#[macro_use]
#[path = "cases/payloads.rs"]
mod cases;
mod mysql_support;

use mysql_support as db;

payload_tests!("needs MariaDB: cargo xtask test");
