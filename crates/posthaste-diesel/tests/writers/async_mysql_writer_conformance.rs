//! The Writers' suite on MySQL and MariaDB, through diesel-async.

async_harness!(MySql, diesel_async::AsyncMysqlConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
