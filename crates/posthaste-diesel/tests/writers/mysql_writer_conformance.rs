//! The Writer conformance suite on diesel and MySQL and MariaDB.

blocking_harness!(MySql, diesel::MysqlConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
