//! What an engine may do with outbox tables of others, on PostgreSQL.

foreign_engine_tests!("needs PostgreSQL: cargo xtask test");
