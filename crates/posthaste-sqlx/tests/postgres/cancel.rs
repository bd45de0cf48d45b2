//! Futures that are dropped half way, on PostgreSQL.

#[macro_use]
#[path = "../cases/cancel.rs"]
mod cases;

cancel_tests!("needs PostgreSQL: cargo xtask test");
