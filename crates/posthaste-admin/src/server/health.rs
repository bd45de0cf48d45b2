//! Handlers that need no token: liveness, readiness, metrics and the OpenAPI document. None of them shows anything of
//! an event.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::future::join_all;
use posthaste::StoreError;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::ApiState;
use super::admin_outbox::AdminOutbox;
use super::error::{ApiError, log_failure};
use super::request::{ApiRequest, ApiResult, json, ok};
use crate::wire::{Live, NotReady, OutboxReadiness, Ready};

/// The age at which a readiness report is made again. Stores are queried at most this often, however often probes come.
const READINESS_MAX_AGE: Duration = Duration::from_secs(1);

/// The longest wait for a store in a probe. A slower store is reported as silent.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn live(_: ApiRequest) -> ApiResult {
    ok(&Live { live: true })
}

pub(super) async fn ready(request: ApiRequest) -> ApiResult {
    // In its own task, so that the query goes on when the probe gives up, and the next probe can use its result.
    let state = request.state.clone();
    let look = tokio::spawn(async move { state.readiness.get(&state).await });
    let report = look.await.map_err(|_| ApiError::panicked())?;
    json(if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &*report)
}

pub(super) async fn metrics(request: ApiRequest) -> ApiResult {
    let media = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let text = request.state.api.metrics.as_ref().map(|render| render()).unwrap_or_default();
    Ok((media, text).into_response())
}

pub(super) async fn openapi(request: ApiRequest) -> ApiResult {
    Ok(([(header::CONTENT_TYPE, "application/json")], request.state.document.clone()).into_response())
}

/// The last readiness report and its time; `None` before the first probe. Locked while the stores are queried.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Arc<Ready>)>>);

impl Readiness {
    /// The current report. Probes that come while the stores are queried wait for the same report.
    async fn get(&self, state: &ApiState) -> Arc<Ready> {
        if (state.api.is_stopping)() {
            return Arc::new(stopping(&state.api.outboxes));
        }
        let mut last = self.0.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < READINESS_MAX_AGE
        {
            return report.clone();
        }
        let lag = state.api.ready_lag;
        let outboxes = join_all(state.api.outboxes.iter().map(|outbox| look(outbox, lag))).await;
        let report = Arc::new(Ready { ready: outboxes.iter().all(|outbox| outbox.ready), outboxes });
        *last = Some((Instant::now(), report.clone()));
        report
    }
}

fn stopping(outboxes: &[Arc<AdminOutbox>]) -> Ready {
    let outboxes = outboxes.iter().map(|outbox| readiness(outbox, Some(NotReady::Stopping), None));
    Ready { ready: false, outboxes: outboxes.collect() }
}

async fn look(outbox: &AdminOutbox, lag: Duration) -> OutboxReadiness {
    let oldest = timeout(STORE_TIMEOUT, outbox.oldest_pending()).await;
    match oldest.unwrap_or(Some(Err(StoreError::Timeout(STORE_TIMEOUT)))) {
        None => readiness(outbox, Some(NotReady::StoreNotOpen), None),
        Some(Ok(oldest)) => {
            readiness(outbox, oldest.filter(|age| *age > lag).map(|_| NotReady::Late), oldest)
        }
        Some(Err(error)) => {
            log_failure(outbox.name(), "ready", &error);
            readiness(outbox, Some(NotReady::StoreSilent), None)
        }
    }
}

fn readiness(outbox: &AdminOutbox, reason: Option<NotReady>, oldest: Option<Duration>) -> OutboxReadiness {
    OutboxReadiness {
        outbox: outbox.name().to_owned(),
        ready: reason.is_none(),
        reason,
        oldest_pending_seconds: oldest.map(|age| age.as_secs_f64()),
    }
}
