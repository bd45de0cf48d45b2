//! The Writers' suite on SQLite, through diesel-async.

async_harness!(Sqlite, posthaste_diesel::AsyncSqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
