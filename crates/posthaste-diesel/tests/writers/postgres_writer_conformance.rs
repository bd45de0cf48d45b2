//! The Writer conformance suite on diesel and PostgreSQL.

blocking_harness!(Postgres, diesel::PgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
