//! Helpers: commands to a Redis server and the entries of its streams.

use std::collections::BTreeMap;
use std::sync::Mutex;

use posthaste::conformance::destination::Received;
use posthaste_testkit::server::{RedisServer, wait_for_server};
use redis::aio::MultiplexedConnection;

/// The URL of a publisher to the stream `orders`.
pub(super) fn url(server: &RedisServer) -> String {
    url_at(server.port())
}

/// The same for a port that leads to the server, such as that of a proxy.
pub(super) fn url_at(port: u16) -> String {
    format!("redis-stream://127.0.0.1:{port}/0?stream=orders")
}

/// Sends a command as the default user, who has all permissions.
pub(super) async fn command(server: &RedisServer, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.exec_async(&mut connection(server.port()).await).await.expect("a reply");
}

async fn connection(port: u16) -> MultiplexedConnection {
    let client = redis::Client::open(("127.0.0.1", port)).expect("a client");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

/// All entries of all streams, once there are at least `n`.
pub(super) async fn received(port: u16, n: usize) -> Vec<Received> {
    let last = Mutex::default();
    wait_for_server("the streams have the entries", async || {
        let entries = read(port).await.unwrap_or_default();
        let are_there = entries.len() >= n;
        *last.lock().expect("no panic") = entries;
        are_there
    })
    .await;
    last.into_inner().expect("no panic")
}

/// The fields of an entry in the order in which Redis returns them.
type Fields = Vec<(String, Vec<u8>)>;

/// Returns `None` while the server is loading its data.
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
    let key = fields.get("key").map(|key| text(key));
    Received::new(text(&fields["id"]), fields["payload"].clone()).with_key(key).with_headers(headers)
}
