//! Shared by the tests of the examples: a web service on a free port, and a database for one test.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::net::SocketAddr;
use std::pin::Pin;

use posthaste::{BoxError, ShutdownReport};
use posthaste_testkit::{unique_name, variable};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Completes when the service must stop.
pub type StopSignal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A web service, running on a free port.
pub struct Service {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<ShutdownReport, BoxError>>,
}

impl Service {
    pub async fn start<F>(run: impl FnOnce(TcpListener, StopSignal) -> F) -> Self
    where
        F: Future<Output = Result<ShutdownReport, BoxError>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(run(listener, Box::pin(async { drop(stopped.await) })));
        Self { address, stop, running }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn post(&self, body: &str) -> String {
        let length = body.len();
        let head =
            "POST /orders HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json";
        self.send(&format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}")).await
    }

    pub async fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")).await
    }

    /// Sends a request; returns the whole response, with headers.
    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("the service listens");
        stream.write_all(request.as_bytes()).await.expect("the service reads");
        let mut result = String::new();
        stream.read_to_string(&mut result).await.expect("the service responds");
        result
    }

    pub async fn stop(self) -> ShutdownReport {
        self.stop.send(()).expect("the program runs");
        self.running.await.expect("no panic").expect("no error")
    }
}

/// A PostgreSQL database for one test.
pub struct Database {
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        let name = unique_name("example_");
        run_on_the_server(format!("CREATE DATABASE {name}")).await;
        Self { name }
    }

    pub fn options(&self) -> PgConnectOptions {
        server().database(&self.name)
    }

    pub fn url(&self) -> String {
        let mut url = self.options().to_url_lossy();
        // Removes options that only sqlx understands.
        url.set_query(None);
        url.into()
    }

    /// The URL for JDBC, which takes the user as a parameter.
    pub fn jdbc_url(&self) -> String {
        let url = self.options().to_url_lossy();
        let (host, port) = (url.host_str().expect("a host"), url.port().unwrap_or(5432));
        let user = format!("user={}&password={}", url.username(), url.password().unwrap_or_default());
        format!("jdbc:postgresql://{host}:{port}/{}?{user}", self.name)
    }

    /// Drops the database, even with open connections.
    pub async fn remove(self) {
        run_on_the_server(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

fn server() -> PgConnectOptions {
    variable("POSTHASTE_TEST_POSTGRES_URL").parse().expect("a valid URL")
}

async fn run_on_the_server(sql: String) {
    let mut connection = PgConnection::connect_with(&server()).await.expect("the server is up");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect("the statement runs");
    connection.close().await.expect("the connection closes");
}
