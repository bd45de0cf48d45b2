//! Probes, metrics, and stores in trouble.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use tokio::time::{Instant, advance, timeout};

use super::failing_store::{DRIVER_ERROR, StoreFailure, in_trouble};
use super::support::{ApiFixture, ORDERS_PATH, request, served};
use crate::server::access::RequiredRole;
use crate::server::endpoints::ENDPOINTS;

async fn readiness(support: &ApiFixture, status: u16) -> serde_json::Value {
    let reply = support.send(request(Method::GET, "/health/ready", None, None)).await;
    assert_eq!(reply.status, status, "{reply:?}");
    reply.json()["outboxes"][0].clone()
}

#[tokio::test]
async fn liveness_does_not_depend_on_the_stores() {
    let (support, calls) = in_trouble(StoreFailure::Silent);
    assert_eq!(support.get("/health/live").await.ok(), json!({"live": true}));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn readiness_fails_while_the_oldest_event_is_too_old() {
    let support = ApiFixture::open();
    assert_eq!(readiness(&support, 200).await["reason"], json!(null));
    support.store.step_clock(true, Duration::from_secs(301));
    assert_eq!(
        readiness(&support, 200).await["ready"],
        true,
        "the store is not queried again within a second"
    );
    advance(Duration::from_secs(1)).await;
    let late = readiness(&support, 503).await;
    assert_eq!((&late["ready"], &late["reason"]), (&false.into(), &"late".into()));
    assert!(late["oldest_pending_seconds"].as_f64().unwrap() > 300.0);
    support.store.step_clock(false, Duration::from_secs(301));
    advance(Duration::from_secs(1)).await;
    readiness(&support, 200).await;
}

#[tokio::test]
async fn outbox_that_is_not_open_is_not_ready() {
    let support = ApiFixture::of(served());
    assert_eq!(readiness(&support, 503).await["reason"], "store_not_open");
}

#[tokio::test(start_paused = true)]
async fn silent_store_is_queried_once_for_all_probes_and_times_out() {
    let (support, calls) = in_trouble(StoreFailure::Silent);
    let begun = Instant::now();
    let probes = futures_util::future::join_all((0..50).map(|_| readiness(&support, 503))).await;
    assert!(probes.iter().all(|probe| probe["reason"] == "store_silent"));
    assert_eq!((calls.load(Ordering::SeqCst), begun.elapsed().as_secs()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn probe_that_gives_up_does_not_cause_another_query() {
    let (support, calls) = in_trouble(StoreFailure::Silent);
    for _ in 0..10 {
        let _ = tokio::time::timeout(Duration::from_millis(10), readiness(&support, 503)).await;
    }
    readiness(&support, 503).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn probes_name_no_event() {
    let support = ApiFixture::open();
    for path in ["/health/ready", "/health/live", "/metrics"] {
        let reply = support.get(path).await;
        assert!(
            !["dead-0", "o-1", "acme", "OrderPlaced"].iter().any(|name| reply.text.contains(name)),
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn metrics_are_text_as_prometheus_reads_it() {
    let reply = ApiFixture::guarded().get("/metrics").await;
    assert_eq!(
        (reply.status.as_u16(), &reply.headers["content-type"]),
        (200, &"text/plain; version=0.0.4; charset=utf-8".parse().unwrap())
    );
}

/// Every endpoint that queries the store, with the body that it needs.
fn store_endpoints() -> impl Iterator<Item = (Method, String, serde_json::Value)> {
    let queries_store = |id: &str| !["outboxes", "tail"].contains(&id);
    ENDPOINTS
        .iter()
        .filter(move |endpoint| endpoint.required_role != RequiredRole::Nothing && queries_store(endpoint.id))
        .map(|endpoint| {
            let path =
                endpoint.path.replace("{outbox}", "orders").replace("{id}", "e-1").replace("{route}", "mail");
            let body = if endpoint.id == "purge" {
                json!({"what": "done", "older_than": "1d"})
            } else {
                json!({"ids": ["e-1"]})
            };
            (endpoint.method.clone(), path, body)
        })
}

#[tokio::test]
async fn no_response_quotes_an_error_of_the_driver() {
    for (failure, status) in
        [(StoreFailure::Broken, 503), (StoreFailure::Unable, 422), (StoreFailure::Panics, 500)]
    {
        let (support, _) = in_trouble(failure);
        for (method, path, body) in store_endpoints() {
            let reply = support.send(request(method, &path, None, Some(body))).await;
            reply.refused(status);
            assert!(!reply.text.contains(DRIVER_ERROR), "{path} {reply:?}");
        }
        let outboxes = support.get("/api/v1/outboxes").await;
        assert!(!outboxes.text.contains(DRIVER_ERROR), "{outboxes:?}");
    }
}

#[tokio::test]
async fn log_says_why_a_store_failed() {
    let (support, _) = in_trouble(StoreFailure::Broken);
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    support.get(&format!("{ORDERS_PATH}/stats")).await.refused(503);
    support.get("/api/v1/outboxes").await.ok();
    readiness(&support, 503).await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for operation in ["stats", "outboxes", "ready"] {
        let line = format!(
            "outbox=\"orders\" operation=\"{operation}\" error=\"the test store failed: {DRIVER_ERROR}\""
        );
        assert!(log.contains(&line), "{line} is not in:\n{log}");
    }
}

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_takes_too_long_is_refused() {
    let (support, _) = in_trouble(StoreFailure::Silent);
    let begun = Instant::now();
    support.get(&format!("{ORDERS_PATH}/stats")).await.refused(503);
    assert_eq!(begun.elapsed().as_secs(), 10);
    let outboxes = support.get("/api/v1/outboxes").await.ok();
    assert!(outboxes["outboxes"][0]["paused"].is_null());
}

#[tokio::test(start_paused = true)]
async fn change_is_finished_after_a_timeout_and_after_the_client_disconnects() {
    let (support, calls) = in_trouble(StoreFailure::Late);
    let path = format!("{ORDERS_PATH}/dead/discard");
    let discard = || support.post(&path, json!({"filter": {}}));
    discard().await.refused(503);
    assert!(timeout(Duration::from_secs(1), discard()).await.is_err(), "the client disconnects");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "neither call has returned");
    advance(Duration::from_secs(60)).await;
    tokio::task::yield_now().await;
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_refused_immediately_and_probes_are_served() {
    let (support, _) = in_trouble(StoreFailure::Silent);
    let path = format!("{ORDERS_PATH}/stats");
    let many = futures_util::future::join_all((0..64).map(|_| support.get(&path)));
    let begun = Instant::now();
    let one_more = async {
        tokio::task::yield_now().await;
        let reply = support.get(&path).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "it does not wait");
        assert_eq!(reply.headers["retry-after"], "1");
        support.get("/health/live").await.ok();
        reply.refused(503)
    };
    let (_, refused) = tokio::join!(many, one_more);
    assert_eq!(refused["error"], "the relay has too many requests at the same time");
}
