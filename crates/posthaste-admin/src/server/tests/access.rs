//! Access control: roles, tokens, and requests without tokens.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Method};
use posthaste::Admin;
use posthaste::admin::PageRequest;
use serde_json::json;

use super::support::{ApiFixture, OPERATOR_TOKEN, ORDERS_PATH, PAYLOAD_SECRET, VIEWER_TOKEN, request};
use crate::server::endpoints::ENDPOINTS;

#[tokio::test]
async fn payload_and_headers_are_for_operators() {
    let support = ApiFixture::guarded();
    let path = format!("{ORDERS_PATH}/events/dead-0");
    let seen = support.send(request(Method::GET, &path, Some(OPERATOR_TOKEN), None)).await.ok();
    assert_eq!(seen["payload"]["json"]["key"], PAYLOAD_SECRET);
    assert_eq!(seen["headers"]["region"], PAYLOAD_SECRET);

    let seen = support.send(request(Method::GET, &path, Some(VIEWER_TOKEN), None)).await.ok();
    assert_eq!((&seen["id"], &seen["payload_bytes"]), (&"dead-0".into(), &24.into()));
    assert!(seen.get("payload").is_none() && seen.get("headers").is_none(), "{seen}");
}

#[tokio::test]
async fn no_response_to_a_viewer_contains_a_payload() {
    let support = ApiFixture::guarded();
    for endpoint in
        ENDPOINTS.iter().filter(|endpoint| endpoint.method == Method::GET && endpoint.id != "tail")
    {
        let path = endpoint.path.replace("{outbox}", "orders").replace("{id}", "dead-0");
        let reply = support.send(request(Method::GET, &path, Some(VIEWER_TOKEN), None)).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!reply.text.contains(PAYLOAD_SECRET), "{path}");
    }
}

#[tokio::test]
async fn audit_names_the_token() {
    let (guarded, open) = (ApiFixture::guarded(), ApiFixture::open());
    for (support, actor) in [(&guarded, "api:bob"), (&open, "api:local")] {
        support.post(&format!("{ORDERS_PATH}/dead/replay"), json!({"ids": ["dead-0"]})).await.ok();
        support.post(&format!("{ORDERS_PATH}/dead/discard"), json!({"ids": ["dead-1"]})).await.ok();
        support.post(&format!("{ORDERS_PATH}/purge"), json!({"what": "done", "older_than": "1m"})).await.ok();
        support.post(&format!("{ORDERS_PATH}/routes/mail/pause"), json!({})).await.ok();
        support.post(&format!("{ORDERS_PATH}/routes/mail/resume"), json!({})).await.ok();
        let entries = support.store.audit(&PageRequest::first(10)).await.unwrap().items;
        let noted: Vec<_> = entries.iter().map(|entry| (&*entry.action, &*entry.actor)).collect();
        assert_eq!(noted, ["resume", "pause", "purge", "discard", "replay"].map(|action| (action, actor)));
    }
}

#[tokio::test]
async fn tokens_are_accepted_only_as_one_bearer_header() {
    let support = ApiFixture::guarded();
    let path = format!("{ORDERS_PATH}/stats");
    for (header, status) in [
        (format!("Bearer {VIEWER_TOKEN}"), 200),
        (format!("bearer {VIEWER_TOKEN}"), 200),
        (format!("Bearer  {VIEWER_TOKEN} "), 200),
        (format!("Bearer {VIEWER_TOKEN}x"), 401),
        (format!("Bearer {}", &VIEWER_TOKEN[1..]), 401),
        (format!("Basic {VIEWER_TOKEN}"), 401),
        (VIEWER_TOKEN.to_owned(), 401),
        ("Bearer ".to_owned(), 401),
        ("Bearer".to_owned(), 401),
        (format!("Bearer {}", "x".repeat(10_000)), 401),
        ("Bearer \u{fc}".to_owned(), 401),
    ] {
        let mut sent = request(Method::GET, &path, None, None);
        sent.headers_mut().insert("authorization", HeaderValue::from_bytes(header.as_bytes()).unwrap());
        let reply = support.send(sent).await;
        assert_eq!(reply.status, status, "{header}");
        assert!(!reply.text.contains(VIEWER_TOKEN), "{reply:?}");
    }
    let mut twice = request(Method::GET, &path, Some(VIEWER_TOKEN), None);
    twice.headers_mut().append("authorization", HeaderValue::from_static("Bearer other"));
    support.send(twice).await.refused(401);
}

#[tokio::test]
async fn without_tokens_only_names_of_this_machine_are_served() {
    let support = ApiFixture::open();
    for (host, served) in [
        ("127.0.0.1:9911", true),
        ("127.8.9.10", true),
        ("[::1]:9911", true),
        ("localhost", true),
        ("LOCALHOST:1", true),
        ("relay.example:9911", false),
        ("localhost.relay.example", false),
        ("127.0.0.1.relay.example", false),
        ("127.0.0.1@relay.example", false),
        ("10.0.0.1", false),
        ("[::2]", false),
        ("", false),
        ("\u{fc}", false),
    ] {
        for path in ["/health/live", "/metrics", "/openapi.json", "/api/v1/outboxes", "/nowhere"] {
            let mut sent = request(Method::GET, path, None, None);
            sent.headers_mut().insert("host", HeaderValue::from_bytes(host.as_bytes()).unwrap());
            let reply = support.send(sent).await;
            assert_eq!(reply.status != 421, served, "{host} {path} {reply:?}");
        }
    }
    let reply = support.send(request(Method::GET, "http://relay.example/api/v1/outboxes", None, None)).await;
    reply.refused(421);
    let guarded = ApiFixture::guarded();
    let mut sent = request(Method::GET, "/api/v1/outboxes", Some(VIEWER_TOKEN), None);
    sent.headers_mut().insert("host", HeaderValue::from_static("relay.example"));
    guarded.send(sent).await.ok();
}

#[tokio::test]
async fn without_tokens_nothing_that_a_proxy_passed_on_is_served() {
    for (name, value) in
        [("x-forwarded-for", "10.0.0.9"), ("forwarded", "for=10.0.0.9"), ("via", "1.1 front")]
    {
        let passed_on = |token| {
            let mut sent = request(Method::GET, "/api/v1/outboxes", token, None);
            sent.headers_mut().insert(name, HeaderValue::from_static(value));
            sent
        };
        ApiFixture::open().send(passed_on(None)).await.refused(403);
        ApiFixture::guarded().send(passed_on(Some(VIEWER_TOKEN))).await.ok();
    }
}

#[tokio::test]
async fn without_tokens_a_web_page_changes_nothing() {
    for (name, value, status) in [
        ("origin", "https://evil.example", 403),
        ("origin", "http://127.0.0.1:9911", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "none", 200),
    ] {
        for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.id == "replay" || endpoint.id == "pause")
        {
            let path = endpoint.path.replace("{outbox}", "orders").replace("{route}", "mail");
            let mut sent = request(Method::POST, &path, None, Some(json!({"ids": ["dead-0"]})));
            sent.headers_mut().insert(name, HeaderValue::from_static(value));
            let support = ApiFixture::open();
            let reply = support.send(sent).await;
            assert_eq!(reply.status, status, "{name}: {value} {reply:?}");
            let noted = support.store.audit(&PageRequest::first(10)).await.unwrap().items;
            assert_eq!(noted.len(), usize::from(status == 200));
        }
    }
    let mut sent = request(Method::GET, "/api/v1/outboxes", None, None);
    sent.headers_mut().insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
    ApiFixture::open().send(sent).await.ok();
}

/// A service may mount the router and listen on every address, so the name in `Host` alone proves nothing.
#[tokio::test]
async fn without_tokens_the_peer_must_be_this_machine() {
    let support = ApiFixture::open();
    for peer in [None, Some("192.0.2.7:4711"), Some("[2001:db8::7]:4711")] {
        for endpoint in ENDPOINTS {
            let path =
                endpoint.path.replace("{outbox}", "orders").replace("{id}", "dead-0").replace("{route}", "a");
            let mut request = request(endpoint.method.clone(), &path, None, None);
            request.extensions_mut().remove::<ConnectInfo<SocketAddr>>();
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
            }
            support.send(request).await.refused(403);
        }
    }
    support.get(ORDERS_PATH).await.refused(404);
}
