//! The Writers' suite on PostgreSQL, through diesel.
#![cfg(feature = "postgres")]

#[macro_use]
mod support;

blocking_harness!(Postgres, diesel::PgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
