//! Whether the relay lives, whether it keeps up, and its metrics. Nothing of an event is in any of these.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::future::join_all;
use posthaste::StoreError;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::asked::{Answer, Asked, json, ok};
use super::refusal::{Refusal, log_failure};
use crate::relay::served::Served;

/// The stores are asked once in this time, however often probes come.
const FRESH: Duration = Duration::from_secs(1);

/// A store that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn live(_: Asked) -> Answer {
    ok(&serde_json::json!({"live": true}))
}

pub(super) async fn ready(asked: Asked) -> Answer {
    // A task of its own: a probe that has given up must not make the next one ask anew.
    let shared = asked.shared.clone();
    let look = tokio::spawn(async move { shared.readiness.get(&shared).await });
    let report = look.await.map_err(|_| Refusal::panicked())?;
    json(if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &*report)
}

pub(super) async fn metrics(asked: Asked) -> Answer {
    let media = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((media, asked.shared.api.metrics.render()).into_response())
}

pub(super) async fn openapi(asked: Asked) -> Answer {
    Ok(([(header::CONTENT_TYPE, "application/json")], asked.shared.document.clone()).into_response())
}

/// The last look at all outboxes.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Arc<Report>)>>);

#[derive(Debug, Serialize)]
struct Report {
    ready: bool,
    outboxes: Vec<OutboxReport>,
}

#[derive(Debug, Serialize)]
struct OutboxReport {
    outbox: String,
    ready: bool,
    reason: Option<Reason>,
    oldest_pending_seconds: Option<f64>,
}

/// Why an outbox is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// The store could not be opened yet.
    StoreNotOpen,
    /// The store does not answer, or not in time.
    StoreSilent,
    /// The oldest due event has waited for too long.
    Late,
    /// The relay finishes what it has begun, and takes nothing new.
    Stopping,
}

impl Report {
    fn stopping(outboxes: &[Arc<Served>]) -> Self {
        let outboxes = outboxes.iter().map(|served| OutboxReport {
            outbox: served.name().to_owned(),
            ready: false,
            reason: Some(Reason::Stopping),
            oldest_pending_seconds: None,
        });
        Self { ready: false, outboxes: outboxes.collect() }
    }
}

impl Readiness {
    /// Those who come while the stores are asked wait for the same answer.
    async fn get(&self, shared: &Shared) -> Arc<Report> {
        if shared.api.stopping.is_cancelled() {
            return Arc::new(Report::stopping(&shared.api.outboxes));
        }
        let mut last = self.0.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < FRESH
        {
            return report.clone();
        }
        let lag = shared.api.ready_lag;
        let outboxes = join_all(shared.api.outboxes.iter().map(|served| look(served, lag))).await;
        let report = Arc::new(Report { ready: outboxes.iter().all(|outbox| outbox.ready), outboxes });
        *last = Some((Instant::now(), report.clone()));
        report
    }
}

async fn look(served: &Served, lag: Duration) -> OutboxReport {
    let asked = timeout(PATIENCE, served.oldest_pending()).await;
    let (reason, oldest) = match asked.unwrap_or(Some(Err(StoreError::Timeout(PATIENCE)))) {
        None => (Some(Reason::StoreNotOpen), None),
        Some(Ok(oldest)) => (oldest.filter(|age| *age > lag).map(|_| Reason::Late), oldest),
        Some(Err(error)) => {
            log_failure(served.name(), "ready", &error);
            (Some(Reason::StoreSilent), None)
        }
    };
    OutboxReport {
        outbox: served.name().to_owned(),
        ready: reason.is_none(),
        reason,
        oldest_pending_seconds: oldest.map(|age| age.as_secs_f64()),
    }
}
