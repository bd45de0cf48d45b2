//! Baselines for publishing: loops with the client library alone. They wait for the same acknowledgements, have the
//! same number of messages in flight, and send the same body, key and id.

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

/// Messages in flight: as many as all workers of the relay have together.
fn window(load: &Load) -> usize {
    load.workers * super::NULL_BATCH_EVENTS
}

/// The messages, one after the other.
struct Messages {
    numbers: std::ops::Range<u64>,
}

/// The key and the id of a message.
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

/// Returns how long it takes until all messages are acknowledged. Connecting does not count.
pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    match url.split(':').next().unwrap_or_default() {
        "kafka" => kafka::publish(url, load).await,
        "amqp" | "amqps" => amqp::publish(url, load).await,
        "nats" | "tls" => nats::publish(url, load).await,
        "redis-stream" | "rediss-stream" => redis_streams::publish(url, load).await,
        "http" | "https" => http::publish(url, load).await,
        "file" | "stdout" => lines::publish(url, load).await,
        _ => {
            Err(InvalidStore::new("the benchmark does not know this publisher: see `posthaste bench --help`")
                .into())
        }
    }
}

fn parse(url: &str) -> anyhow::Result<url::Url> {
    // The error of the parser could contain the URL with its password.
    url::Url::parse(url).map_err(|_| InvalidStore::new("the URL after --publish cannot be read").into())
}

/// The target in the path of a URL, for clients that take it separately.
fn target(url: &url::Url) -> String {
    url.path().trim_start_matches('/').to_owned()
}

fn parameter(url: &url::Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// `host:port` of the URL.
fn address(url: &url::Url, port: u16) -> String {
    format!("{}:{}", url.host_str().unwrap_or("127.0.0.1"), url.port().unwrap_or(port))
}
