//! Runnable examples, one program per question that a user asks:
//!
//! - `quickstart`: how do an order and its event share a transaction?
//! - `axum_sqlite`, `axum_postgres`: how does a web service use an outbox, and how does it stop? Their
//!   parts are in [`axum_sqlite`] and [`axum_postgres`], so that tests can run them.
//! - `axum_admin`: how does a web service show operators its outbox? Its parts are in [`axum_admin`].
//! - `two_databases`, `two_postgres_databases`: what if the service has more than one database?
//! - `writer_only`: what if another process delivers?
//! - `tokio_postgres`, `rusqlite`, `diesel`, `diesel_async`, `sea_orm`: what if the service does not use sqlx?
//! - `redis_tickets`: what if the service's state is in Redis? Tickets are minted, revoked, and expire.
//! - `service_tests`: how does a service test itself without a database?
//!
//! `cargo run -p posthaste-examples --bin quickstart` runs the first. Those on PostgreSQL want to know
//! where it is, in the variable `DATABASE_URL`, and the one on Redis in `REDIS_URL`.

pub mod axum_admin;
pub mod axum_postgres;
pub mod axum_sqlite;
pub mod web;

/// The URL of a PostgreSQL database that an environment variable holds.
pub fn database_url(variable: &str) -> Result<String, String> {
    std::env::var(variable).map_err(|_| {
        format!("{variable} is not set: name a PostgreSQL database, such as postgres://localhost/shop")
    })
}

/// The page of this repository that has a program for every driver, so that they are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/getting-started.md")]
struct GettingStarted;
