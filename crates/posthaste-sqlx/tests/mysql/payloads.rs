//! Events as MySQL and MariaDB keep them.

#[macro_use]
#[path = "../cases/payloads.rs"]
mod cases;

payload_tests!("needs MariaDB: cargo xtask test");
