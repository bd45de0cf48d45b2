//! What a relay is told to do: one file, or flags alone, with overrides from the environment.
//!
//! Whoever asks gets a [`RelayConfig`] in which everything was checked, or every problem at once, each with its
//! place in the file. Nothing here opens a connection.

mod admin;
mod environment;
mod flags;
mod layout;
mod load;
mod outbox;
mod overrides;
mod problem;
mod report;
mod route;
mod secrets;
mod section;
mod show;
mod target;
#[cfg(test)]
mod tests;
mod texts;
mod tree;
mod webhook;

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::Config;

pub(crate) use admin::what_is_wrong_with_level;
pub(crate) use flags::{ConfigArgs, Flags, OutboxFlags};
pub(crate) use load::Source;
pub(crate) use problem::{Problem, Problems};
pub(crate) use show::shown;
pub(crate) use target::Target;
pub(crate) use webhook::WebhookConfig;

use crate::secret::Secret;
use crate::store_spec::StoreSpec;

pub(crate) use crate::logging::LogFormat;

/// Everything that a relay does. Its `Debug` tells no secret.
#[derive(Clone, Debug)]
pub(crate) struct RelayConfig {
    pub(crate) admin: AdminConfig,
    pub(crate) log: LogConfig,
    /// At least one; their names differ.
    pub(crate) outboxes: Vec<OutboxConfig>,
}

/// The admin listener: health, metrics and the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdminConfig {
    /// Where it listens; none if it is off. Default: 127.0.0.1:9911. On an address that is not loopback there
    /// is at least one token.
    pub(crate) listen: Option<SocketAddr>,
    /// Not ready when the oldest event that is due has waited for longer. Default: 5 min.
    pub(crate) ready_lag: Duration,
    /// Who may use the API. Without one, everybody who can reach a loopback address.
    pub(crate) tokens: Vec<TokenConfig>,
}

/// One bearer token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenConfig {
    /// Who has it: what stands in the audit as `api:NAME`.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// At least 16 characters.
    pub(crate) token: Secret,
}

/// What the holder of a token may do. An operator may do all that a viewer may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Look, but not at payloads.
    Viewer,
    /// Look at everything, replay, discard, purge, pause and resume.
    Operator,
}

/// How the relay logs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogConfig {
    /// Default: text.
    pub(crate) format: LogFormat,
    /// A level, or directives as in `RUST_LOG`. Default: info.
    pub(crate) level: String,
}

/// One outbox: where it is, how it runs, where its events go.
#[derive(Clone, Debug)]
pub(crate) struct OutboxConfig {
    pub(crate) store: StoreSpec,
    /// Create or upgrade the table before the first claim. Default: no.
    pub(crate) migrate: bool,
    /// Its `name` is the name of the outbox. What the file leaves out is as in [`Config::relay`].
    pub(crate) config: Config,
    /// At least one, in the order of the file. Those without `*` are asked first, then those with it in this
    /// order, and one that takes everything last.
    pub(crate) routes: Vec<RouteConfig>,
}

/// Which events go where, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouteConfig {
    /// Default: its patterns, such as `Order.*`.
    pub(crate) name: String,
    /// A pattern, in which `*` stands for any text. Default: `*`.
    pub(crate) aggregate: String,
    /// Likewise.
    pub(crate) event: String,
    /// Likewise; none also takes events without a tenant.
    pub(crate) tenant: Option<String>,
    /// One destination, or several that all get every event; their names are kept with the events.
    pub(crate) publish: Vec<Target>,
    pub(crate) concurrency: Option<usize>,
    /// Events per second.
    pub(crate) rate: Option<f64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) batch: Option<usize>,
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
