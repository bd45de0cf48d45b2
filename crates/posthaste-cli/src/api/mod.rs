//! The admin listener: health, metrics, and a JSON API equal to the command line.
//!
//! It contains no SQL: it speaks to [`posthaste::Admin`]. `/health/*` and `/metrics` carry no payload, key or id
//! and need no token; everything else does, unless there are no tokens, which is possible on loopback only.
//!
//! - `routes` lists every route: the router, the OpenAPI document and the tests are made from it.
//! - `fields` says what a parameter may be, `asked` takes a request apart by that.
//! - `access` says who may do what; `refusal` is every answer that is not the one that was asked for.
//! - `health`, `look`, `change` and `tail` answer; `openapi` and `schemas` say how.
//! - `serve` listens.

mod access;
mod asked;
mod change;
mod fields;
mod health;
mod look;
mod openapi;
mod refusal;
mod routes;
mod schemas;
mod serve;
mod tail;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::config::TokenConfig;
use crate::relay::served::Served;

pub(crate) use self::serve::serve;

/// Requests that are answered at the same time; health and metrics do not count.
const REQUESTS: usize = 64;

/// Those who follow at the same time.
const FOLLOWERS: usize = 16;

/// What the listener answers from.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) outboxes: Vec<Arc<Served>>,
    /// Empty: nobody needs one.
    pub(crate) tokens: Vec<TokenConfig>,
    /// Not ready when the oldest due event of any outbox has waited for longer.
    pub(crate) ready_lag: Duration,
    pub(crate) metrics: PrometheusHandle,
    /// Cancelled when the relay begins to stop: from then on it is not ready.
    pub(crate) stopping: CancellationToken,
}

/// What all requests share.
#[derive(Debug)]
struct Shared {
    api: Arc<Api>,
    access: access::Access,
    readiness: health::Readiness,
    requests: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    /// The OpenAPI document.
    document: String,
    stop: CancellationToken,
}

impl Shared {
    /// Those who follow are sent away when `stop` is cancelled.
    fn new(api: Arc<Api>, stop: CancellationToken) -> Self {
        Self {
            access: access::Access::new(&api.tokens),
            readiness: health::Readiness::default(),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            document: openapi::document().to_string(),
            api,
            stop,
        }
    }
}
