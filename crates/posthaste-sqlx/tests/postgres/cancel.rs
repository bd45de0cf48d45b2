//! Futures that are dropped half way, on PostgreSQL.

cancel_tests!("needs PostgreSQL: cargo xtask test");
