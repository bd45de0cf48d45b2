//! The Writers' suite on SQLite, through diesel-async.
#![cfg(feature = "async-sqlite")]

#[macro_use]
mod support;

async_harness!(Sqlite, posthaste_diesel::AsyncSqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
