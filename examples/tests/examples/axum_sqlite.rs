//! Tests the web service on SQLite over TCP, with a real file.

use posthaste::ShutdownReport;
use posthaste_examples::axum_sqlite::run;
use posthaste_testkit::within_timeout;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use crate::support::Service;

/// The service and its file.
struct Shop {
    service: Service,
    database: SqliteConnectOptions,
    dir: TempDir,
}

impl Shop {
    async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let database =
            SqliteConnectOptions::new().filename(dir.path().join("shop.db")).create_if_missing(true);
        let pool = SqlitePool::connect_with(database.clone()).await.expect("the file opens");
        let service = Service::start(|listener, stop| run(listener, pool, stop)).await;
        Self { service, database, dir }
    }

    /// Stops the service and opens its file.
    async fn close(self) -> (ShutdownReport, SqlitePool, TempDir) {
        let report = self.service.stop().await;
        (report, SqlitePool::connect_with(self.database).await.expect("the file opens"), self.dir)
    }
}

// S3-23
#[tokio::test]
async fn order_is_confirmed_soon_after_it_was_placed() {
    let shop = Shop::open().await;

    let placed = shop.service.post(r#"{"item": "tea"}"#).await;
    assert!(placed.starts_with("HTTP/1.1 201 "), "{placed}");
    assert!(placed.ends_with(r#"{"id":1,"item":"tea","confirmed":false}"#), "{placed}");

    let confirmed = async {
        while !shop.service.get("/orders/1").await.ends_with(r#"{"id":1,"item":"tea","confirmed":true}"#) {}
    };
    within_timeout("the handler runs", confirmed).await;
    shop.close().await;
}

#[tokio::test]
async fn order_is_confirmed_before_the_service_stops() {
    let shop = Shop::open().await;
    for _ in 0..20 {
        shop.service.post(r#"{"item": "tea"}"#).await;
    }

    let (report, pool, _dir) = shop.close().await;

    assert_eq!((report.released, report.abandoned), (0, 0));
    let confirmed: i64 =
        sqlx::query_scalar("SELECT count(*) FROM orders WHERE confirmed").fetch_one(&pool).await.unwrap();
    assert_eq!(confirmed, 20);
}

#[tokio::test]
async fn order_that_cannot_be_read_leaves_neither_a_row_nor_an_event() {
    let shop = Shop::open().await;
    let refused = shop.service.post(r#"{"thing": "tea"}"#).await;
    assert!(refused.starts_with("HTTP/1.1 422 "), "{refused}");
    assert!(shop.service.get("/orders/1").await.starts_with("HTTP/1.1 404 "));

    let (_, pool, _dir) = shop.close().await;

    let count = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox_event)";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 0);
}
