//! Runnable examples, one program per question:
//!
//! - `quickstart`: how do an order and its event share a transaction?
//! - `axum_sqlite`, `axum_postgres`: how does a web service use an outbox, and how does it stop? The code is in
//!   [`axum_sqlite`] and [`axum_postgres`], so that tests can run it.
//! - `axum_admin`: how does a web service show its outbox to operators? The code is in [`axum_admin`].
//! - `two_databases`, `two_postgres_databases`: what if the service has more than one database?
//! - `writer_only`: what if another process delivers?
//! - `tokio_postgres`, `rusqlite`, `diesel`, `diesel_async`, `sea_orm`: what if the service does not use sqlx?
//! - `redis_tickets`: what if the service's state is in Redis? Tickets are minted, revoked, and expire.
//! - `service_tests`: how does a service test itself without a database?
//!
//! `cargo run -p posthaste-examples --bin quickstart` runs the first. The examples on PostgreSQL read its URL from the
//! variable `DATABASE_URL`, the one on Redis from `REDIS_URL`.

pub mod axum_admin;
pub mod axum_postgres;
pub mod axum_sqlite;
pub mod web;

/// Reads the URL of a PostgreSQL database from an environment variable.
pub fn database_url(variable: &str) -> Result<String, String> {
    std::env::var(variable).map_err(|_| {
        format!("{variable} is not set: name a PostgreSQL database, such as postgres://localhost/shop")
    })
}

/// The page with a program for every driver, included so that the programs are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/getting-started.md")]
struct GettingStarted;
