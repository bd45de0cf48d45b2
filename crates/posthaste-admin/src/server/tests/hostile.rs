//! Hostile requests: each gets an error with advice, and none reaches a store or ends the relay.

use axum::body::Body;
use axum::http::{Method, Request, header};
use posthaste::memory::RawRow;
use serde_json::{Value, json};

use super::support::{ApiFixture, OPERATOR_TOKEN, ORDERS_PATH, request};

#[tokio::test]
async fn hostile_ids_are_not_found_or_refused() {
    let support = ApiFixture::guarded();
    for (id, status) in [
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404),
        ("%00", 400),
        ("dead-0%00", 400),
        ("%ff%fe", 400),
        ("%", 404),
        ("%zz", 404),
        ("'%3B%20DROP%20TABLE%20outbox_event%3B--", 404),
        ("%F0%9F%92%A9", 404),
        ("..", 404),
        ("dead-0/x", 404),
        ("", 404),
    ] {
        let reply = support.get(&format!("{ORDERS_PATH}/events/{id}")).await;
        reply.refused(status);
    }
    let long = "x".repeat(10_000);
    support.get(&format!("{ORDERS_PATH}/events/{long}")).await.refused(400);
    support.get(&format!("/api/v1/outboxes/{long}/stats")).await.refused(400);
    support.post(&format!("{ORDERS_PATH}/routes/{long}/pause"), json!({})).await.refused(400);
    support.post(&format!("{ORDERS_PATH}/routes/%00/pause"), json!({})).await.refused(400);
}

#[tokio::test]
async fn strange_ids_that_exist_are_found() {
    let support = ApiFixture::guarded();
    for (id, encoded) in [("a/b?c#d", "a%2Fb%3Fc%23d"), ("ü 100%", "%C3%BC%20100%25"), ("../x", "..%2Fx")] {
        support.store.insert_raw(RawRow::default().with_id(id));
        assert_eq!(support.get(&format!("{ORDERS_PATH}/events/{encoded}")).await.ok()["id"], id);
    }
}

#[tokio::test]
async fn wrong_queries_are_refused() {
    let support = ApiFixture::guarded();
    for query in [
        "events?limit=0",
        "events?limit=1001",
        "events?limit=-1",
        "events?limit=ten",
        "events?limit=%2B5",
        "events?limit=05",
        "events?limit=1.0",
        "events?limit=",
        "events?limit=1&limit=2",
        "events?after=-1",
        "events?after=9223372036854775808",
        "events?status=dead",
        "events?status=",
        "events?type=%00",
        "events?tenant=",
        "events?nonsense=1",
        "events?Limit=1",
        "stats?x",
        "dead/groups?limit=99999999999999999999",
        "audit?after=x",
        "tail?outcome=perhaps",
    ] {
        support.get(&format!("{ORDERS_PATH}/{query}")).await.refused(400);
    }
    support.get("/health/live?x=1").await.refused(400);
    support.get(&format!("{ORDERS_PATH}/events?type={}", "x".repeat(256))).await.refused(400);
    support.get(&format!("{ORDERS_PATH}/events?type={}", "%C3%BC".repeat(255))).await.ok();
}

#[tokio::test]
async fn wrong_bodies_are_refused_and_change_nothing() {
    let support = ApiFixture::guarded();
    let before = format!("{:?}", support.store.rows());
    let bodies = [
        ("replay", json!(null)),
        ("replay", json!([])),
        ("replay", json!([["dead-0"]])),
        ("replay", json!({})),
        ("replay", json!({"ids": []})),
        ("replay", json!({"ids": "dead-0"})),
        ("replay", json!({"ids": [1]})),
        ("replay", json!({"ids": ["a\u{0}"]})),
        ("replay", json!({"ids": vec!["x"; 101]})),
        ("replay", json!({"ids": ["dead-0"], "filter": {}})),
        ("replay", json!({"ids": ["dead-0"], "limit": 1})),
        ("replay", json!({"ids": ["dead-0"], "forget_progress": null})),
        ("replay", json!({"ids": ["dead-0"], "forget_progress": "yes"})),
        ("replay", json!({"filter": []})),
        ("replay", json!({"filter": null})),
        ("replay", json!({"filter": {"status": "NEW"}})),
        ("replay", json!({"filter": {"type": null}})),
        ("replay", json!({"filter": {"typ": "OrderPlaced"}})),
        ("replay", json!({"filter": {}, "limit": 0})),
        ("replay", json!({"filter": {}, "limit": 1001})),
        ("replay", json!({"filter": {}, "limit": 1.5})),
        ("replay", json!({"filter": {}, "limit": "1"})),
        ("discard", json!({"filter": {}, "forget_progress": true})),
        ("discard", json!({"filter": {}, "dry_run": true})),
    ];
    for (verb, body) in bodies {
        let reply = support.post(&format!("{ORDERS_PATH}/dead/{verb}"), body.clone()).await;
        assert_eq!(reply.status, 400, "{body} {reply:?}");
        reply.refused(400);
    }
    for body in [
        json!({"what": "done"}),
        json!({"what": "all", "older_than": "1d"}),
        json!({"what": "done", "older_than": "1y"}),
        json!({"what": "done", "older_than": "-1d"}),
        json!({"what": "done", "older_than": "d"}),
        json!({"what": "done", "older_than": 1}),
        json!({"what": "done", "older_than": "9999999d"}),
        json!({"what": "done", "older_than": "1d\n"}),
    ] {
        let reply: super::support::Reply = support.post(&format!("{ORDERS_PATH}/purge"), body.clone()).await;
        assert_eq!(reply.status, 400, "{body} {reply:?}");
    }
    assert_eq!(format!("{:?}", support.store.rows()), before);
}

async fn raw(support: &ApiFixture, media: Option<&str>, body: impl Into<Body>) -> super::support::Reply {
    let mut sent: Request<Body> =
        request(Method::POST, &format!("{ORDERS_PATH}/dead/replay"), Some(OPERATOR_TOKEN), None);
    if let Some(media) = media {
        sent.headers_mut().insert(header::CONTENT_TYPE, media.parse().unwrap());
    }
    *sent.body_mut() = body.into();
    support.send(sent).await
}

#[tokio::test]
async fn bodies_that_are_not_json_are_refused() {
    let support = ApiFixture::guarded();
    let good = r#"{"ids":["dead-0"]}"#;
    for (media, body, status) in [
        (None, good, 415),
        (Some("text/plain"), good, 415),
        (Some("application/x-www-form-urlencoded"), good, 415),
        (Some("application/jsonp"), good, 415),
        (Some("application/json"), "", 400),
        (Some("application/json"), "{", 400),
        (Some("application/json"), r#"{"ids":["\ud800"]}"#, 400),
        (Some("application/json"), r#"{"ids":["dead-0"]} x"#, 400),
    ] {
        raw(&support, media, body).await.refused(status);
    }
    raw(&support, Some("application/json"), vec![0xff, 0xfe]).await.refused(400);
    raw(&support, Some("application/json"), "[".repeat(100_000)).await.refused(400);
    raw(&support, Some("application/json"), "[".repeat(1024 * 1024 + 1)).await.refused(413);
    raw(&support, Some("Application/JSON; charset=utf-8"), good).await.ok();
}

#[tokio::test]
async fn error_is_about_the_form_that_was_meant() {
    let support = ApiFixture::guarded();
    for (body, error) in [
        (json!({"filter": {}, "limit": 0}), "limit must be a whole number from 1 to 1000"),
        (json!({"ids": ["x"], "limit": 1}), r#"unknown parameter "limit": known are ids, forget_progress"#),
        (json!({}), "ids is missing; or: filter is missing"),
    ] {
        let refused = support.post(&format!("{ORDERS_PATH}/dead/replay"), body).await.refused(400);
        assert_eq!(refused["error"], error);
    }
    // JSON has one type of numbers, so 5.0 is a whole number.
    support.post(&format!("{ORDERS_PATH}/dead/replay"), json!({"filter": {}, "limit": 5.0})).await.ok();
}

#[tokio::test]
async fn errors_do_not_repeat_the_value() {
    let support = ApiFixture::guarded();
    let body: Value = json!({"ids": ["sEcret-value", 1]});
    let replies = [
        support.post(&format!("{ORDERS_PATH}/dead/replay"), body).await,
        support.get(&format!("{ORDERS_PATH}/events?limit=sEcret-value")).await,
        raw(&support, Some("application/json"), r#"{"ids": sEcret-value"#).await,
    ];
    for reply in replies {
        reply.refused(400);
        assert!(!reply.text.contains("sEcret"), "{reply:?}");
    }
}
