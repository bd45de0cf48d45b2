//! The loop that somebody would write with the client library alone: the same acknowledgements, the same
//! number of messages on the way, the same body and key, and the id.

mod amqp;
mod http;
mod kafka;
mod lines;
mod nats;
mod redis_streams;

use std::time::Duration;

use super::super::workload::Load;
use super::key;
use posthaste_stores::InvalidStore;

/// Messages on the way at once: as many as the relay's workers have together.
fn window(load: &Load) -> usize {
    load.workers * super::NULL_BATCH_EVENTS
}

/// What is published, one after the other.
struct Messages {
    numbers: std::ops::Range<u64>,
}

/// The key of a message and its id.
struct Identity {
    key: String,
    id: String,
}

impl Messages {
    fn of(load: &Load) -> Self {
        Self { numbers: 0..load.events }
    }
}

impl Iterator for Messages {
    type Item = Identity;

    fn next(&mut self) -> Option<Identity> {
        let number = self.numbers.next()?;
        Some(Identity { key: key(number), id: format!("bare-{number:031}") })
    }
}

/// How long it takes until all are acknowledged. Connecting does not count.
pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    match url.split(':').next().unwrap_or_default() {
        "kafka" => kafka::publish(url, load).await,
        "amqp" | "amqps" => amqp::publish(url, load).await,
        "nats" | "tls" => nats::publish(url, load).await,
        "redis-stream" | "rediss-stream" => redis_streams::publish(url, load).await,
        "http" | "https" => http::publish(url, load).await,
        "file" | "stdout" => lines::publish(url, load).await,
        _ => {
            Err(InvalidStore::new("the benchmark knows no such publisher: see `posthaste bench --help`")
                .into())
        }
    }
}

/// The target that stands in the path of a URL, for clients that get it apart.
fn parse(url: &str) -> anyhow::Result<url::Url> {
    // The parser's own error would show what was typed.
    url::Url::parse(url).map_err(|_| InvalidStore::new("the URL after --publish cannot be read").into())
}

fn target(url: &url::Url) -> String {
    url.path().trim_start_matches('/').to_owned()
}

fn parameter(url: &url::Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// `host:port`.
fn address(url: &url::Url, port: u16) -> String {
    format!("{}:{}", url.host_str().unwrap_or("127.0.0.1"), url.port().unwrap_or(port))
}
