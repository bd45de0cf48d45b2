//! What an engine may do with outbox tables of others, on MySQL and MariaDB.

foreign_engine_tests!("needs MariaDB: cargo xtask test");
