//! The Writer conformance suite on diesel-async and PostgreSQL.

async_harness!(Postgres, diesel_async::AsyncPgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
