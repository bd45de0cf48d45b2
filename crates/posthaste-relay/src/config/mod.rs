//! Configuration of a relay: one TOML file, or command-line options alone, with overrides from the environment.
//!
//! [`Source::load`] returns a [`RelayConfig`] that has passed every check, or all problems together, each with its
//! place in the file. No code here opens a connection.

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

/// The whole configuration of a relay. Neither its `Debug` nor its `Serialize` shows a secret.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RelayConfig {
    /// `[admin]`, the admin listener.
    pub admin: AdminConfig,
    /// `[log]`, the log.
    pub log: LogConfig,
    /// `[outbox.NAME]`: at least one outbox, with different names.
    #[serde(rename = "outbox", serialize_with = "show::outboxes")]
    pub outboxes: Vec<OutboxConfig>,
}

/// The admin listener: health, metrics and the API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AdminConfig {
    /// The address on which it listens; `None` if it is off. Default: 127.0.0.1:9911. An address that is not loopback
    /// needs at least one token.
    #[serde(serialize_with = "show::or_off")]
    pub listen: Option<SocketAddr>,
    /// The largest lag with which the relay is ready: the age of the oldest pending event that has been due. Default:
    /// 5 min.
    #[serde(serialize_with = "serde_with::duration")]
    pub ready_lag: Duration,
    /// The tokens of the API. Default: none, and every request from this machine is accepted.
    #[serde(serialize_with = "show::tokens", skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
}

/// The log of a relay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogConfig {
    /// The format of log lines. Default: text.
    pub format: LogFormat,
    /// A level, or directives as in `RUST_LOG`. Default: `info`.
    pub level: String,
}

/// One outbox: its store, the settings of its engine, and its routes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutboxConfig {
    /// The store and the table.
    pub store: StoreSpec,
    /// Whether the table is created or upgraded before the first claim. Default: no.
    pub migrate: bool,
    /// The settings of the engine. Its `name` is the name of the outbox. Default of every setting: [`Config::relay`].
    pub config: Config,
    /// At least one route, in the order of the file. An event goes to the first match: routes without `*` are tried
    /// first, then those with `*` in this order, and the route that takes everything last.
    pub routes: Vec<RouteConfig>,
}

/// One route: which events it takes, where they go, and how fast.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RouteConfig {
    /// The name in metrics, logs and pauses. Default: its patterns, such as `Order.*`.
    pub name: String,
    /// Pattern of the aggregate type, in which `*` stands for any text. Default: `*`.
    pub aggregate: String,
    /// Pattern of the event type. Default: `*`.
    pub event: String,
    /// Pattern of the tenant. Default: `None`, every event, with a tenant or without.
    pub tenant: Option<String>,
    /// One destination, or several that all get every event. The names of several are stored with the events.
    #[serde(flatten, serialize_with = "show::destinations")]
    pub publish: Vec<Target>,
    /// The maximum number of deliveries at the same time. Default: as many as the outbox has workers.
    pub concurrency: Option<usize>,
    /// The maximum number of events per second, of each relay. Default: no limit.
    pub rate: Option<f64>,
    /// The longest that a delivery may take. Default: `publish_timeout` of the outbox.
    #[serde(serialize_with = "serde_with::duration")]
    pub timeout: Option<Duration>,
    /// The maximum number of events per call of a publisher. Default: that of the publisher.
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
