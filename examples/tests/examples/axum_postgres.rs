//! Tests the web service on PostgreSQL over TCP, with a database of its own.

use posthaste_examples::axum_postgres::run;
use posthaste_testkit::within_timeout;
use sqlx::PgPool;

use crate::support::{Database, Service};

/// Starts a node, and waits until it serves requests.
async fn start(database: &Database) -> Service {
    let pool = PgPool::connect_with(database.options()).await.expect("the database is up");
    let service = Service::start(|listener, stop| run(listener, pool, stop)).await;
    service.get("/health").await;
    service
}

async fn count(database: &Database, query: &'static str) -> i64 {
    let pool = PgPool::connect_with(database.options()).await.expect("the database is up");
    let count = sqlx::query_scalar(query).fetch_one(&pool).await.expect("a number");
    pool.close().await;
    count
}

// S3-23
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn order_is_confirmed_soon_after_it_was_placed() {
    let database = Database::create().await;
    let service = start(&database).await;

    let placed = service.post(r#"{"item": "tea"}"#).await;
    assert!(placed.starts_with("HTTP/1.1 201 "), "{placed}");
    assert!(placed.ends_with(r#"{"id":1,"item":"tea","confirmed":false}"#), "{placed}");

    let confirmed = async {
        while !service.get("/orders/1").await.ends_with(r#"{"id":1,"item":"tea","confirmed":true}"#) {}
    };
    within_timeout("the handler runs", confirmed).await;
    service.stop().await;
    database.remove().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn orders_taken_by_two_nodes_are_confirmed_before_they_stop() {
    let database = Database::create().await;
    let nodes = [start(&database).await, start(&database).await];
    for n in 0..20 {
        nodes[n % 2].post(r#"{"item": "tea"}"#).await;
    }

    for node in nodes {
        let report = node.stop().await;
        assert_eq!((report.released, report.abandoned), (0, 0));
    }

    assert_eq!(count(&database, "SELECT count(*) FROM orders WHERE confirmed").await, 20);
    assert_eq!(count(&database, "SELECT count(*) FROM outbox_event WHERE status = 1").await, 20);
    database.remove().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn order_that_cannot_be_read_leaves_neither_a_row_nor_an_event() {
    let database = Database::create().await;
    let service = start(&database).await;
    let refused = service.post(r#"{"thing": "tea"}"#).await;
    assert!(refused.starts_with("HTTP/1.1 422 "), "{refused}");
    assert!(service.get("/orders/1").await.starts_with("HTTP/1.1 404 "));

    service.stop().await;

    let rows = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox_event)";
    assert_eq!(count(&database, rows).await, 0);
    database.remove().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn health_is_200_with_a_database_and_503_without() {
    let database = Database::create().await;
    let service = start(&database).await;
    let health = service.get("/health").await;
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert!(health.ends_with(r#"{"oldest_event_ms":0}"#), "{health}");

    database.remove().await;

    let health = service.get("/health").await;
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    service.stop().await;
}
