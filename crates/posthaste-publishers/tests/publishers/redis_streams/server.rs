//! Servers of Redis, and what is in them.

use std::collections::BTreeMap;

use bytes::Bytes;
use posthaste::EventId;
use posthaste::conformance::destination::Received;
use redis::aio::MultiplexedConnection;

use crate::server::{OwnServer, given, listens, program, until};

/// A server of a test's own, which keeps what it has acknowledged when it is killed.
pub(super) struct RedisServer {
    server: OwnServer,
}

impl RedisServer {
    /// With these settings besides. Where `PORT` stands among them, the server listens there and nowhere else.
    pub(super) fn new(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let server = OwnServer::new(move |dir, port| {
            let mut command = program(&given("POSTHASTE_TEST_REDIS_BIN"));
            let port = port.to_string();
            let has_port = settings.iter().any(|setting| setting == "PORT");
            command.args([
                "--bind",
                "127.0.0.1",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ]);
            command.args(["--port", if has_port { "0" } else { &port }]);
            command.arg("--dir").arg(dir);
            command.args(settings.iter().map(|setting| if setting == "PORT" { &port } else { setting }));
            command
        });
        Self { server }
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) async fn start(&mut self) {
        self.server.start(listens).await;
    }

    pub(super) fn kill(&mut self) {
        self.server.kill();
    }

    pub(super) fn hold(&self) {
        self.server.hold();
    }

    pub(super) fn let_go(&self) {
        self.server.let_go();
    }

    /// Sends a command as the user who may everything.
    pub(super) async fn command(&self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.exec_async(&mut connection(self.port()).await).await.expect("an answer");
    }
}

async fn connection(port: u16) -> MultiplexedConnection {
    let client = redis::Client::open(("127.0.0.1", port)).expect("a client");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

/// All entries of all streams, once there are so many.
pub(super) async fn received(port: u16, n: usize) -> Vec<Received> {
    until("the streams have them", || {
        let read = read(port);
        async { read.await.is_some_and(|read| read.len() >= n) }
    })
    .await;
    read(port).await.expect("entries")
}

/// As Redis lists them: a name, a value, the next name.
type Fields = Vec<(String, Vec<u8>)>;

/// Nothing while the server still reads its data.
async fn read(port: u16) -> Option<Vec<Received>> {
    let client = redis::Client::open(("127.0.0.1", port)).expect("a client");
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    let streams: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.ok()?;
    let mut all = Vec::new();
    for stream in streams {
        let mut range = redis::cmd("XRANGE");
        range.arg(stream).arg("-").arg("+");
        let entries: Vec<(String, Fields)> = range.query_async(&mut connection).await.ok()?;
        all.extend(entries.into_iter().map(|(_, fields)| entry(fields)));
    }
    Some(all)
}

fn entry(fields: Fields) -> Received {
    let fields: BTreeMap<String, Vec<u8>> = fields.into_iter().collect();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let headers = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("header:")?.to_owned(), text(value))))
        .collect();
    Received {
        id: EventId::from(text(&fields["id"])),
        payload: Bytes::from(fields["payload"].clone()),
        key: fields.get("key").map(|key| text(key)),
        headers,
    }
}
