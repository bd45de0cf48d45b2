//! Builds a publisher from a URL. Only this module maps URL schemes to publishers.

use std::sync::Arc;

use crate::error::PublisherError;
use crate::publisher::Publisher;

/// All URL schemes, including those of publishers whose feature is off in this build.
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

/// Builds the publisher for a URL. The result can be used as a destination, for example with `Route::deliver_to`.
///
/// Nothing is connected yet: use [`Publisher::check`] for that.
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
/// # Errors
///
/// A [`PublisherError`] if the scheme is unknown, its feature is off, or a setting in the URL is wrong.
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

/// The error text for a scheme without a publisher.
fn unknown_scheme(scheme: &str) -> String {
    if KNOWN_SCHEMES.contains(&scheme) {
        return format!(
            "this build has no publisher for {scheme}: turn on its feature of posthaste-publishers"
        );
    }
    // The input is not shown: it may be a password.
    format!("the URL has an unknown scheme: write one of {}", KNOWN_SCHEMES.join(", "))
}
