//! The Writer conformance suite on diesel-async and MySQL and MariaDB.

async_harness!(MySql, diesel_async::AsyncMysqlConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
