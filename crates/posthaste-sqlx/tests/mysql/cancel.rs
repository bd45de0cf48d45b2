//! Futures that are dropped half way, on MySQL and MariaDB.

cancel_tests!("needs MariaDB: cargo xtask test");
