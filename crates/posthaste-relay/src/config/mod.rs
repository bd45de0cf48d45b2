//! The configuration of a relay: one file, or flags alone, with overrides from the environment.
//!
//! [`Source::load`] returns a [`RelayConfig`] in which everything was checked, or every problem at once, each with its
//! place in the file. Nothing here opens a connection.

mod admin;
mod bounded_file;
mod engine;
mod env_overrides;
mod environment;
mod flags;
mod foreign_layout;
mod interpolation;
mod key_sensitivity;
mod known_keys;
mod load;
mod optional_setting;
mod outbox;
mod problem;
mod problem_collector;
mod problem_excerpt;
mod redaction;
mod route;
mod route_check;
mod route_targets;
mod section;
mod serde_with;
mod show;
mod source_text;
mod target;
#[cfg(test)]
mod tests;
mod toml_tree;
mod webhook;

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::Config;
use posthaste_admin::Token;
use posthaste_stores::StoreSpec;
use serde::Serialize;

pub use admin::what_is_wrong_with_level;
pub use flags::Flags;
pub use load::Source;
pub use problem::{Problem, Problems};
pub use show::shown;
pub use target::Target;
pub use webhook::WebhookConfig;

pub use crate::logging::LogFormat;

/// Everything that a relay does. Neither its `Debug` nor its `Serialize` tells a secret.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RelayConfig {
    /// The admin listener.
    pub admin: AdminConfig,
    /// The log.
    pub log: LogConfig,
    /// At least one; their names differ.
    #[serde(rename = "outbox", serialize_with = "show::outboxes")]
    pub outboxes: Vec<OutboxConfig>,
}

/// The admin listener: health, metrics and the API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Where it listens; none if it is off. Default: 127.0.0.1:9911. On an address that is not loopback there
    /// is at least one token.
    #[serde(serialize_with = "show::or_off")]
    pub listen: Option<SocketAddr>,
    /// Not ready when the oldest event that is due has waited for longer. Default: 5 min.
    #[serde(serialize_with = "serde_with::duration")]
    pub ready_lag: Duration,
    /// Who may use the API. Without one, everybody who can reach a loopback address.
    #[serde(serialize_with = "show::tokens", skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
}

/// How the relay logs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogConfig {
    /// Default: text.
    pub format: LogFormat,
    /// A level, or directives as in `RUST_LOG`. Default: info.
    pub level: String,
}

/// One outbox: where it is, how it runs, where its events go.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutboxConfig {
    /// Where it is.
    pub store: StoreSpec,
    /// Create or upgrade the table before the first claim. Default: no.
    pub migrate: bool,
    /// Its `name` is the name of the outbox. What the file leaves out is as in [`Config::relay`].
    pub config: Config,
    /// At least one, in the order of the file. Those without `*` are asked first, then those with it in this
    /// order, and one that takes everything last.
    pub routes: Vec<RouteConfig>,
}

/// Which events go where, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RouteConfig {
    /// Default: its patterns, such as `Order.*`.
    pub name: String,
    /// A pattern, in which `*` stands for any text. Default: `*`.
    pub aggregate: String,
    /// A pattern likewise.
    pub event: String,
    /// Likewise; none also takes events without a tenant.
    pub tenant: Option<String>,
    /// One destination, or several that all get every event; their names are kept with the events.
    #[serde(flatten, serialize_with = "show::destinations")]
    pub publish: Vec<Target>,
    /// Deliveries at the same time. Default: as the engine has it.
    pub concurrency: Option<usize>,
    /// Events per second. Default: no limit.
    pub rate: Option<f64>,
    /// The longest that a delivery may take. Default: as the engine has it.
    #[serde(serialize_with = "serde_with::duration")]
    pub timeout: Option<Duration>,
    /// Events per call of a publisher. Default: as the engine has it.
    pub batch: Option<usize>,
}

impl RelayConfig {
    /// A relay of these outboxes, with the default listener and log.
    pub fn new(outboxes: Vec<OutboxConfig>) -> Self {
        Self { admin: AdminConfig::default(), log: LogConfig::default(), outboxes }
    }
}

impl OutboxConfig {
    /// An outbox in this store. `config` has its name; [`Config::relay`] has the defaults of a relay.
    pub fn new(store: StoreSpec, config: Config, routes: Vec<RouteConfig>) -> Self {
        Self { store, migrate: false, config, routes }
    }
}

impl RouteConfig {
    /// A route for all events to these destinations. Several destinations need names.
    pub fn new(publish: Vec<Target>) -> Self {
        Self {
            name: "*".to_owned(),
            aggregate: "*".to_owned(),
            event: "*".to_owned(),
            tenant: None,
            publish,
            concurrency: None,
            rate: None,
            timeout: None,
            batch: None,
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 9911))),
            ready_lag: Duration::from_secs(300),
            tokens: Vec::new(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".to_owned() }
    }
}
