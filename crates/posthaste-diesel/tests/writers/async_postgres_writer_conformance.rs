//! The Writers' suite on PostgreSQL, through diesel-async.

async_harness!(Postgres, diesel_async::AsyncPgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
