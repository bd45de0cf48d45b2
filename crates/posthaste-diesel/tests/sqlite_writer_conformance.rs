//! The Writers' suite on SQLite, through diesel.
#![cfg(feature = "sqlite")]

#[macro_use]
mod support;

blocking_harness!(Sqlite, diesel::SqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
