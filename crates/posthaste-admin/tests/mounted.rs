//! The router mounted in an axum service, called over TCP by the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use posthaste::memory::RawRow;
use posthaste::{Event, MemoryStore, MemoryWriter, Outbox, Recorder, Route, Routes};
use posthaste_admin::{AdminApi, AdminOutbox, Client, ClientError, Role, Secret, Token, router, wire};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

const TOKEN: &str = "a-token-for-this-test";

/// A service with its own path `/` and the API below `/internal/outbox`.
fn service(api: AdminApi) -> Router {
    Router::new().route("/", get(async || "the shop")).nest("/internal/outbox", router(api))
}

async fn listen(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
    });
    address
}

fn client(address: SocketAddr, token: Option<&str>) -> Client {
    Client::new(&format!("http://{address}/internal/outbox"), token.map(Secret::new)).expect("a good URL")
}

fn dead(id: &str) -> RawRow {
    RawRow::default().with_id(id).with_status_code(3).with_last_error("refused")
}

#[tokio::test]
async fn service_serves_the_api_beside_its_own_routes() {
    let store = MemoryStore::new();
    store.insert_raw(dead("d-1"));
    let admin = Arc::new(AdminOutbox::open("shop", vec!["mail".to_owned()], store));
    let api = AdminApi::new().outbox(admin).token(Token::new("ann", Role::Operator, TOKEN));
    let address = listen(service(api)).await;

    let client = client(address, Some(TOKEN));
    let wire::Outboxes { outboxes, .. } = client.get(&["outboxes"], &[]).await.expect("the outboxes");
    assert_eq!((outboxes[0].outbox.as_str(), outboxes[0].open), ("shop", true));
    let stats: wire::Stats = client.get(&["outboxes", "shop", "stats"], &[]).await.expect("the counts");
    assert_eq!(stats.dead, 1);
    let replay = ["outboxes", "shop", "dead", "replay"];
    let changed: wire::Changed = client.post(&replay, &json!({"ids": ["d-1"]})).await.expect("a replay");
    assert_eq!((changed.changed, changed.action.as_str()), (1, "replay"));
    let event: wire::Event =
        client.get(&["outboxes", "shop", "events", "d-1"], &[]).await.expect("the event");
    assert_eq!((event.row.id.as_str(), event.row.replays), ("d-1", 1));
    let audit: wire::Audit = client.get(&["outboxes", "shop", "audit"], &[]).await.expect("the audit");
    assert_eq!(audit.entries[0].actor, "api:ann");
}

#[tokio::test]
async fn mounted_api_refuses_requests_without_a_valid_token() {
    let admin = Arc::new(AdminOutbox::open("shop", Vec::new(), MemoryStore::new()));
    let api = AdminApi::new().outbox(admin).token(Token::new("ann", Role::Operator, TOKEN));
    let address = listen(service(api)).await;
    for token in [None, Some("another-token-entirely")] {
        let refused = client(address, token).get::<wire::Outboxes>(&["outboxes"], &[]).await;
        assert!(matches!(refused, Err(ClientError::Refused(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn metrics_are_served_only_if_the_service_has_some() {
    let address = listen(service(AdminApi::new())).await;
    assert!(matches!(client(address, None).metrics().await, Err(ClientError::Refused(_))));
    let address = listen(service(AdminApi::new().metrics(|| "orders_total 7\n".to_owned()))).await;
    assert_eq!(client(address, None).metrics().await.expect("metrics"), "orders_total 7\n");
}

#[tokio::test]
async fn tail_shows_what_the_service_delivers() {
    let store = MemoryStore::new();
    let admin = Arc::new(AdminOutbox::open("shop", Vec::new(), store.clone()));
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder));
    let outbox = Outbox::builder(store.clone(), routes).single_node().interceptor(admin.feed().clone());
    let outbox = outbox.start().expect("a good configuration");
    let address = listen(service(AdminApi::new().outbox(admin))).await;

    let mut tail = client(address, None).tail("shop", &[]).await.expect("a tail");
    assert_eq!(
        tail.next().await.expect("a line").as_deref(),
        Some(&b"\n"[..]),
        "from here nothing is missed"
    );
    let writer = MemoryWriter::new(&store, &outbox);
    let mut tx = writer.begin().await.expect("a transaction");
    tx.write(Event::builder("OrderPlaced").id("e-1").json_text("{}").build().expect("an event"))
        .await
        .expect("a write");
    tx.commit().await.expect("a commit");
    let line = timeout(Duration::from_secs(30), tail.next()).await.expect("a delivery").expect("a line");
    let line: wire::TailLine = serde_json::from_slice(&line.expect("a line")).expect("JSON");
    assert_eq!((line.id.as_str(), line.attempt, line.outcome.as_str()), ("e-1", 1, "done"));
    outbox.shutdown().await;
}
