//! Runnable examples, one program per question that a user asks:
//!
//! - `quickstart`: how do an order and its event share a transaction?
//! - `axum_sqlite`: how does a web service use an outbox, and how does it stop? Its parts are in
//!   [`axum_sqlite`], so that a test can run it.
//! - `two_databases`: what if the service has more than one database?
//! - `service_tests`: how does a service test itself without a database?
//!
//! `cargo run -p posthaste-examples --bin quickstart` runs the first.

pub mod axum_sqlite;
