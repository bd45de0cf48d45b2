//! The Writers' suite on PostgreSQL, through diesel-async.
#![cfg(feature = "async-postgres")]

#[macro_use]
mod support;

async_harness!(Postgres, diesel_async::AsyncPgConnection);

posthaste::writer_conformance!(Harness::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
