//! The relay: delivers the events that services in any language wrote into their outboxes.
//!
//! [`Source::load`](config::Source::load) reads a configuration, and [`Relay::run`] delivers until it is stopped. The
//! program `posthaste relay` is this crate with a command line and signals.
//!
//! ```no_run
//! use posthaste_relay::Relay;
//! use posthaste_relay::config::Source;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), posthaste::BoxError> {
//! let config = Source::File("posthaste.toml".into()).load()?;
//! Relay::run(config, async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - `config`: the configuration, from a file or from options. Every mistake is reported, each with its place.
//! - `relay`: starts the outboxes and the admin listener, executes commands, stops everything.
//! - `relay_outbox`: one outbox: opens its store, then runs, replaces and stops its engine.
//! - `reload_plan`: compares a new configuration with what runs, and prepares the change or refuses it.
//! - `publisher_pool`: builds publishers, and reuses those that routes or two configurations have in common.
//! - `logging`, `log_dedup`: log lines to standard error, without those that repeat.
//! - `metrics`: the recorder behind `/metrics`.

pub mod config;
mod error;
mod log_dedup;
pub mod logging;
pub mod metrics;
mod publisher_pool;
mod relay;
mod relay_outbox;
mod reload_plan;

pub use error::RelayError;
pub use relay::{Relay, RelayCommand, RelayExit};
