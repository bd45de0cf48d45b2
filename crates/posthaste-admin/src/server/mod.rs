//! The router: health, metrics, and a JSON API with the functions of the command line.
//!
//! - `endpoints` is the table of all paths, each an `endpoint`. Router, OpenAPI document and tests are made from it.
//! - `params` has the rules of parameters. `respond` reads and checks a request by them, and calls its handler with a
//!   `request`.
//! - `access` admits or refuses requests; `error` has every response that is not a success.
//! - `health`, `read_handlers`, `change_handlers` and `tail_handler` are the handlers; `openapi` describes them.
//! - `admin_outbox` is one outbox as the handlers see it; `delivery_feed` is the stream that `tail` follows.
//! - `listener` serves the router with bounded connections.

mod access;
mod admin_outbox;
mod change_handlers;
mod delivery_feed;
mod endpoint;
mod endpoints;
mod error;
mod health;
mod listener;
mod openapi;
mod params;
mod read_handlers;
mod request;
mod respond;
mod tail_handler;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use access::{Role, Token};
pub use admin_outbox::AdminOutbox;
pub use delivery_feed::DeliveryFeed;
pub use listener::serve;

/// The maximum number of requests that are handled at the same time. Endpoints that need no token do not count.
const MAX_REQUESTS: usize = 64;

/// The maximum number of followers of `tail` at the same time.
const MAX_FOLLOWERS: usize = 16;

/// The settings of the API: the outboxes that it serves and the tokens that it accepts.
pub struct AdminApi {
    outboxes: Vec<Arc<AdminOutbox>>,
    tokens: Vec<Token>,
    ready_lag: Duration,
    metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
    is_stopping: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Default for AdminApi {
    fn default() -> Self {
        Self {
            outboxes: Vec::new(),
            tokens: Vec::new(),
            ready_lag: Duration::from_secs(300),
            metrics: None,
            is_stopping: Box::new(|| false),
        }
    }
}

impl AdminApi {
    /// An API without outboxes and tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an outbox. Outboxes are listed in the order of these calls.
    pub fn outbox(mut self, outbox: Arc<AdminOutbox>) -> Self {
        self.outboxes.push(outbox);
        self
    }

    /// Adds a token. Default: no tokens; then only requests from this machine are served, that is, from a peer with a
    /// loopback address. A router that is mounted in a service knows its peers only if the service uses
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn token(mut self, token: Token) -> Self {
        self.tokens.push(token);
        self
    }

    /// Sets the largest lag with which the outbox is ready: the age of the oldest pending event that has been due.
    /// Default: 5 minutes.
    pub fn ready_lag(mut self, lag: Duration) -> Self {
        self.ready_lag = lag;
        self
    }

    /// Sets the function that renders `/metrics` in the text format of Prometheus. Default: there is no `/metrics`.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// Sets a function that returns whether the process is stopping. If it is, `/health/ready` fails. Default: never.
    pub fn stopping_when(mut self, is_stopping: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_stopping = Box::new(is_stopping);
        self
    }
}

impl fmt::Debug for AdminApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminApi")
            .field("outboxes", &self.outboxes)
            .field("tokens", &self.tokens)
            .field("ready_lag", &self.ready_lag)
            .finish_non_exhaustive()
    }
}

/// Builds a router with `/health/live`, `/health/ready`, `/metrics`, `/openapi.json` and `/api/v1/…`.
///
/// It can be nested below any path. Requests are bounded in number, size and time. Connections are bounded only by
/// [`serve`]; a service that mounts the router bounds its own.
pub fn router(api: AdminApi) -> axum::Router {
    endpoints::router(Arc::new(ApiState::new(api, CancellationToken::new())))
}

/// The state that all requests share.
#[derive(Debug)]
struct ApiState {
    api: AdminApi,
    access: access::Access,
    readiness: health::Readiness,
    /// One permit for each request that may still be accepted, out of [`MAX_REQUESTS`].
    requests: Arc<Semaphore>,
    /// One permit for each follower that may still be accepted, out of [`MAX_FOLLOWERS`].
    followers: Arc<Semaphore>,
    /// The OpenAPI document, rendered once.
    document: String,
    /// Cancelled when the listener stops, which disconnects the followers.
    stop: CancellationToken,
}

impl ApiState {
    fn new(api: AdminApi, stop: CancellationToken) -> Self {
        Self {
            access: access::Access::new(&api.tokens),
            readiness: health::Readiness::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            document: openapi::document(|endpoint| endpoint.is_served(&api)).to_string(),
            api,
            stop,
        }
    }
}
