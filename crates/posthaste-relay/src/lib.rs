//! The relay: delivers what services in any language wrote into their outboxes.
//!
//! [`Source::load`](config::Source::load) reads a configuration, and [`Relay::run`] delivers until it is told to stop.
//! The program `posthaste relay` is this crate with a command line and signals.
//!
//! ```no_run
//! use posthaste_relay::Relay;
//! use posthaste_relay::config::Source;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Source::File("posthaste.toml".into()).load()?;
//! Relay::run(config, async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - `config`: what a relay is told to do, read from a file or from options, with every mistake reported at once.
//! - `relay`: starts everything, obeys commands, stops everything.
//! - `outbox`: one outbox. Its store is opened, its engine runs, is replaced, stops.
//! - `reload`: whether a running relay can take over another configuration.
//! - `destinations`: builds publishers, and keeps those that two configurations share.
//! - `logging`, `repeats`: log lines, and the suppression of those that repeat.
//! - `metrics`: the recorder that `/metrics` shows.

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
