//! What an engine may do with outbox tables of others, on MySQL and MariaDB.

#[macro_use]
#[path = "../cases/layout_engine.rs"]
mod cases;

layout_engine_tests!("needs MariaDB: cargo xtask test");
