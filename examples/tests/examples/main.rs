//! Every example, from outside. One program for all of them: linking it is most of the work.

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
