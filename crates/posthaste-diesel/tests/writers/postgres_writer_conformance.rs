//! The Writers' suite on PostgreSQL, through diesel.

blocking_harness!(Postgres, diesel::PgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
