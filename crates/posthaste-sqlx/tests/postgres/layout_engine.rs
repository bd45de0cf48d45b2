//! What an engine may do with outbox tables of others, on PostgreSQL.

#[macro_use]
#[path = "../cases/layout_engine.rs"]
mod cases;

layout_engine_tests!("needs PostgreSQL: cargo xtask test");
