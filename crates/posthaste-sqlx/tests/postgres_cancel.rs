//! Futures that are dropped half way, on PostgreSQL.
#![cfg(feature = "postgres")]

#[macro_use]
#[path = "cases/cancel.rs"]
mod cases;
mod postgres_support;

use postgres_support as db;

cancel_tests!("needs PostgreSQL: cargo xtask test");
