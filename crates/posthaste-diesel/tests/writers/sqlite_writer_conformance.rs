//! The Writers' suite on SQLite, through diesel.

blocking_harness!(Sqlite, diesel::SqliteConnection);

posthaste::writer_conformance!(Harness::new().await);
