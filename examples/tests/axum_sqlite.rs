//! The web service from outside: over TCP, with a real file.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::{BoxError, ShutdownReport};
use posthaste_examples::axum_sqlite::run;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The service, running on a free port.
struct Service {
    address: SocketAddr,
    database: SqliteConnectOptions,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<ShutdownReport, BoxError>>,
    _dir: TempDir,
}

impl Service {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let database =
            SqliteConnectOptions::new().filename(dir.path().join("shop.db")).create_if_missing(true);
        let pool = SqlitePool::connect_with(database.clone()).await.expect("the file opens");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(run(listener, pool, async { drop(stopped.await) }));
        Self { address, database, stop, running, _dir: dir }
    }

    async fn post(&self, body: &str) -> String {
        let length = body.len();
        let head =
            "POST /orders HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json";
        self.send(&format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}")).await
    }

    async fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")).await
    }

    /// The whole answer, headers and all.
    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        answer
    }

    /// Stops it, and opens the file that it leaves behind.
    async fn stop(self) -> (ShutdownReport, SqlitePool, TempDir) {
        self.stop.send(()).expect("it runs");
        let report = self.running.await.expect("no panic").expect("no error");
        (report, SqlitePool::connect_with(self.database).await.expect("the file opens"), self._dir)
    }
}

// S3-23
#[tokio::test]
async fn order_is_confirmed_soon_after_it_was_placed() {
    let service = Service::start().await;

    let placed = service.post(r#"{"item": "tea"}"#).await;
    assert!(placed.starts_with("HTTP/1.1 201 "), "{placed}");
    assert!(placed.ends_with(r#"{"id":1,"item":"tea","confirmed":false}"#), "{placed}");

    let confirmed = async {
        while !service.get("/orders/1").await.ends_with(r#"{"id":1,"item":"tea","confirmed":true}"#) {}
    };
    timeout(Duration::from_secs(10), confirmed).await.expect("the handler runs");
    service.stop().await;
}

#[tokio::test]
async fn what_was_placed_is_confirmed_before_the_service_ends() {
    let service = Service::start().await;
    for _ in 0..20 {
        service.post(r#"{"item": "tea"}"#).await;
    }

    let (report, pool, _dir) = service.stop().await;

    assert_eq!((report.released, report.abandoned), (0, 0));
    let confirmed: i64 =
        sqlx::query_scalar("SELECT count(*) FROM orders WHERE confirmed").fetch_one(&pool).await.unwrap();
    assert_eq!(confirmed, 20);
}

#[tokio::test]
async fn order_that_cannot_be_read_leaves_neither_a_row_nor_an_event() {
    let service = Service::start().await;
    let refused = service.post(r#"{"thing": "tea"}"#).await;
    assert!(refused.starts_with("HTTP/1.1 422 "), "{refused}");
    assert!(service.get("/orders/1").await.starts_with("HTTP/1.1 404 "));

    let (_, pool, _dir) = service.stop().await;

    let count = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox_event)";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 0);
}
