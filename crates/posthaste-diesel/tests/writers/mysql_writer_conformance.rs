//! The Writers' suite on MySQL and MariaDB, through diesel.

blocking_harness!(MySql, diesel::MysqlConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
