//! A receiver process. It writes each request to a file before it responds, so that acknowledged events are still
//! there after it is killed.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use posthaste::conformance::destination::Received;
use posthaste::{Delivery, Event, Headers};
use posthaste_testkit::process::program;
use posthaste_testkit::server::{OwnServer, wait_for_server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::wire;
use crate::broker_faults::Broker;

/// Environment variables that tell the child process what to do.
const FILE_VAR: &str = "POSTHASTE_TEST_HTTP_FILE";
const PORT_VAR: &str = "POSTHASTE_TEST_HTTP_PORT";

pub(super) struct Receiver {
    server: OwnServer,
}

#[async_trait]
impl Broker for Receiver {
    async fn shared() -> Self {
        let mut receiver = Self::own().await;
        receiver.start().await;
        receiver
    }

    async fn own() -> Self {
        Self { server: OwnServer::new(command) }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks", self.server.port())
    }

    fn server(&mut self) -> &mut OwnServer {
        &mut self.server
    }

    async fn start(&mut self) {
        self.server.listen().await;
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        wait_for_server("the requests have arrived", || {
            let received = self.read();
            let all: HashSet<_> = received.iter().map(|request| (&request.id, &request.payload)).collect();
            std::future::ready(all.len() >= n)
        })
        .await;
        self.read()
    }

    fn refused() -> Delivery {
        Delivery::first(Event::json("Refused", "no").expect("a good event"))
    }
}

impl Receiver {
    fn read(&self) -> Vec<Received> {
        let text = std::fs::read_to_string(journal(self.server.dir())).unwrap_or_default();
        text.lines().map(|line| received(&serde_json::from_str(line).expect("JSON"))).collect()
    }
}

fn command(folder: &Path, port: u16) -> Command {
    let this = std::env::current_exe().expect("this program");
    let mut command = program(this.to_str().expect("a path in UTF-8"));
    command.args(["--exact", "http::receiver::child", "--ignored", "--nocapture"]);
    command.env(FILE_VAR, journal(folder)).env(PORT_VAR, port.to_string());
    command
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("requests.jsonl")
}

fn received(line: &Value) -> Received {
    let headers: Headers = serde_json::from_value(line["headers"].clone()).expect("headers");
    let decoded = |name: &str| {
        let value = percent_decode_str(headers.get(name)?).decode_utf8().expect("text");
        Some(value.into_owned())
    };
    let body = STANDARD.decode(line["body"].as_str().expect("a body")).expect("base64");
    let key = decoded("outbox-aggregate-id");
    Received::new(decoded("outbox-event-id").expect("an id"), body).with_key(key).with_headers(headers)
}

/// Not a test: the process that the tests start and kill.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    let (Ok(file), Ok(port)) = (std::env::var(FILE_VAR), std::env::var(PORT_VAR)) else { return };
    let file = OpenOptions::new().append(true).create(true).open(file).expect("a file");
    let file = Arc::new(Mutex::new(file));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the port");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let file = Arc::clone(&file);
        tokio::spawn(wire::connection(stream, move |request| {
            let response = record(&file, &request);
            async move { Some(response) }
        }));
    }
}

/// Records a request with a single write, so that a killed process leaves a whole line or none. Returns the
/// response.
fn record(file: &Mutex<std::fs::File>, request: &wire::Request) -> Vec<u8> {
    if request.header("outbox-event-type") == Some("Refused") {
        return wire::response(422, &[], "not this one");
    }
    let headers: Headers = request.headers.iter().cloned().collect();
    let line = json!({ "headers": headers, "body": STANDARD.encode(&request.body) });
    let written = file.lock().expect("no panic").write_all(format!("{line}\n").as_bytes());
    written.expect("a line");
    wire::response(200, &[], "")
}
