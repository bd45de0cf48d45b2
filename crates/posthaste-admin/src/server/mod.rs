//! The router: health, metrics, and a JSON API equal to the command line.
//!
//! - `routes` lists every route: the router, the OpenAPI document and the tests are made from it.
//! - `params` says what a parameter may be, `request` reads and checks a request by that.
//! - `access` decides who may do what; `error` has every response that is not a success.
//! - `health`, `read`, `write` and `tail` are the handlers; `openapi` describes them.
//! - `outbox` is one outbox as the handlers see it, `delivery_feed` what `tail` follows.
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

/// Requests that are handled at the same time; health and metrics do not count.
const MAX_REQUESTS: usize = 64;

/// Followers of a tail at the same time.
const MAX_FOLLOWERS: usize = 16;

/// What the API serves: outboxes, and who may use them.
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

    /// Adds an outbox.
    pub fn outbox(mut self, outbox: Arc<AdminOutbox>) -> Self {
        self.outboxes.push(outbox);
        self
    }

    /// Adds a token. Default: none, and only requests from this machine are served: the peer must be a loopback
    /// address. A router that is mounted by a service knows its peers only if the service uses
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn token(mut self, token: Token) -> Self {
        self.tokens.push(token);
        self
    }

    /// The longest that a due event may have waited while the outbox counts as ready. Default: 5 minutes.
    pub fn ready_lag(mut self, lag: Duration) -> Self {
        self.ready_lag = lag;
        self
    }

    /// Serves what this function returns at `/metrics`, in Prometheus' text format. Default: there is no `/metrics`.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// Not ready from the moment when this function returns true. Default: never.
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

/// A router with everything: `/health/live`, `/health/ready`, `/metrics`, `/openapi.json` and `/api/v1/…`.
///
/// It can be nested below any path. Requests are bounded in number, size and time; connections are the server's
/// business, and [`serve`] bounds them too.
pub fn router(api: AdminApi) -> axum::Router {
    endpoints::router(Arc::new(ApiState::new(api, CancellationToken::new())))
}

/// What all requests share.
#[derive(Debug)]
struct ApiState {
    api: AdminApi,
    access: access::Access,
    readiness: health::Readiness,
    /// A permit for each request that is being handled.
    requests: Arc<Semaphore>,
    /// A permit for each follower of a tail.
    followers: Arc<Semaphore>,
    /// The OpenAPI document.
    document: String,
    /// Cancelled when the listener stops: followers are disconnected.
    stop: CancellationToken,
}

impl ApiState {
    fn new(api: AdminApi, stop: CancellationToken) -> Self {
        Self {
            access: access::Access::new(&api.tokens),
            readiness: health::Readiness::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            document: openapi::document(|route| route.is_served(&api)).to_string(),
            api,
            stop,
        }
    }
}
