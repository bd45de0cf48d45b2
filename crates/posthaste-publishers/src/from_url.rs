//! Builds the publisher that a URL names. This is the one place that knows which schemes there are.

use std::sync::Arc;

use crate::error::PublisherError;
use crate::publisher::Publisher;

/// The schemes of URLs, those whose publisher is not in this build too.
const KNOWN_SCHEMES: &[&str] = &[
    "kafka",
    "amqp",
    "amqps",
    "nats",
    "tls",
    "redis-stream",
    "rediss-stream",
    "http",
    "https",
    "stdout",
    "file",
];

/// The publisher that a URL names. Nothing is connected yet: [`Publisher::check`] does that. It goes wherever a
/// destination goes, `Route::deliver_to` for one.
///
/// | URL | publisher | feature |
/// |---|---|---|
/// | `kafka://host:9092,host:9092/topic` | `kafka::KafkaPublisher` | `kafka` |
/// | `amqp://user:password@host/vhost?exchange=…` | `amqp::AmqpPublisher` | `amqp` |
/// | `nats://host:4222/subject` | `nats::NatsPublisher` | `nats` |
/// | `redis-stream://host:6379/0?stream=…` | `redis_streams::RedisStreamPublisher` | `redis-streams` |
/// | `https://host/path` | `http::HttpPublisher` | `http` |
/// | `stdout:`, `file:///path` | `lines::LinesPublisher` | `lines` |
///
/// ```
/// # #[cfg(feature = "lines")] {
/// let publisher = posthaste_publishers::publisher("stdout:?format=envelope")?;
/// # let _ = publisher;
/// # }
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
pub fn publisher(url: &str) -> Result<Arc<dyn Publisher>, PublisherError> {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        #[cfg(feature = "http")]
        "http" | "https" => Ok(Arc::new(crate::http::HttpPublisher::from_url(url)?)),
        #[cfg(feature = "kafka")]
        "kafka" => Ok(Arc::new(crate::kafka::KafkaPublisher::from_url(url)?)),
        #[cfg(feature = "amqp")]
        "amqp" | "amqps" => Ok(Arc::new(crate::amqp::AmqpPublisher::from_url(url)?)),
        #[cfg(feature = "lines")]
        "stdout" | "file" => Ok(Arc::new(crate::lines::LinesPublisher::from_url(url)?)),
        #[cfg(feature = "nats")]
        "nats" | "tls" => Ok(Arc::new(crate::nats::NatsPublisher::from_url(url)?)),
        #[cfg(feature = "redis-streams")]
        "redis-stream" | "rediss-stream" => {
            Ok(Arc::new(crate::redis_streams::RedisStreamPublisher::from_url(url)?))
        }
        _ => Err(PublisherError::new("publisher", unknown_scheme(scheme))),
    }
}

/// Why there is no publisher for this scheme.
fn unknown_scheme(scheme: &str) -> String {
    if KNOWN_SCHEMES.contains(&scheme) {
        return format!(
            "this build has no publisher for {scheme}: turn on its feature of posthaste-publishers"
        );
    }
    // What was typed is not shown: it may be a password.
    format!("the URL begins with no scheme that is known: known are {}", KNOWN_SCHEMES.join(", "))
}
