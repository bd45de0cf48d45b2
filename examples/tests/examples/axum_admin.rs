//! Tests the web service with the admin API over TCP, with the API's own client.

use posthaste_admin::{Client, ClientError, Secret, wire};
use posthaste_examples::axum_admin::run;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use crate::support::Service;

const TOKEN: &str = "a-token-for-this-test";

#[tokio::test]
async fn operator_looks_into_the_outbox_of_a_running_service() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let database = SqliteConnectOptions::new().filename(dir.path().join("shop.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(database).await.expect("the file opens");
    let service = Service::start(|listener, stop| run(listener, pool, TOKEN, stop)).await;
    let url = format!("http://{}/internal/outbox", service.address());

    assert!(
        service.post(r#"{"item": "tea"}"#).await.starts_with("HTTP/1.1 201 "),
        "its own routes are there"
    );
    let ready = service.get("/internal/outbox/health/ready").await;
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");

    let stranger = Client::new(&url, None).expect("a valid URL");
    let refused = stranger.get::<wire::Stats>(&["outboxes", "shop", "stats"], &[]).await;
    assert!(matches!(refused, Err(ClientError::Refused(_))), "{refused:?}");

    let operator = Client::new(&url, Some(Secret::new(TOKEN))).expect("a valid URL");
    let events: wire::Events = operator.get(&["outboxes", "shop", "events"], &[]).await.expect("the events");
    assert_eq!(events.events[0].event_type, "OrderPlaced");
    service.stop().await;
}
