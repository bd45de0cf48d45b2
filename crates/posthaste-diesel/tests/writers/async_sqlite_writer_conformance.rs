//! The Writer conformance suite on diesel-async and SQLite.

async_harness!(Sqlite, posthaste_diesel::AsyncSqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
