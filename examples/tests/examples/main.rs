//! Tests of the examples, most of which run as processes, in one program because linking takes most of the build time.

mod axum_admin;
mod axum_postgres;
mod axum_sqlite;
mod postgres_programs;
#[cfg(unix)]
mod producers;
mod producers_page;
mod publish;
mod quickstart;
mod redis_tickets;
mod support;
