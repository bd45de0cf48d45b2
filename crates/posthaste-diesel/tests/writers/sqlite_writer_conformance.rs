//! The Writer conformance suite on diesel and SQLite.

blocking_harness!(Sqlite, diesel::SqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
