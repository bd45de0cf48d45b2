//! Destinations that send events to message brokers, webhooks, files and standard output.
//!
//! A route delivers events to a [`Destination`](posthaste::Destination): an async function, or a publisher of this
//! crate. All publishers implement [`Publisher`], a destination that can also be checked and diagnosed.
//!
//! [`publisher()`] builds a publisher from a URL; each publisher also has a builder. No type of the underlying
//! client library appears in the API. Building a publisher checks its settings and connects nowhere. A broker that
//! is down is an outage: it costs no attempts. [`Publisher::check`] reports whether the broker is reachable.
//!
//! ```
//! # #[cfg(feature = "lines")]
//! # fn main() -> Result<(), posthaste::BoxError> {
//! use posthaste::{Route, Routes};
//! use posthaste_publishers::publisher;
//!
//! let routes = Routes::new().add(Route::fallback().deliver_to(publisher("stdout:")?));
//! # let _ = routes;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "lines"))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! All features are off by default.
//!
//! | Feature | Module | Events go to |
//! |---|---|---|
//! | `amqp` | `amqp` | RabbitMQ, over AMQP 0.9.1 (Unix only) |
//! | `http` | `http` | webhooks |
//! | `kafka` | `kafka` | Apache Kafka; builds librdkafka, which needs a C compiler and make |
//! | `kafka-tls` | `kafka` | Apache Kafka with TLS and SCRAM, with the system's OpenSSL; includes `kafka` |
//! | `lines` | `lines` | standard output and files |
//! | `nats` | `nats` | NATS JetStream |
//! | `redis-streams` | `redis_streams` | Redis Streams |
//!
//! All publishers support the same message formats: see [`Format`].

// Each publisher uses a part of the shared modules, so some of their items are unused unless all features are on.
#![cfg_attr(
    not(all(
        feature = "amqp",
        feature = "http",
        feature = "kafka",
        feature = "nats",
        feature = "redis-streams"
    )),
    allow(dead_code)
)]

#[cfg(feature = "amqp")]
pub mod amqp;
mod check_error;
mod error;
mod format;
mod from_url;
mod host_port;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "lines")]
pub mod lines;
#[cfg(any(feature = "http", feature = "nats"))]
mod message_id;
#[cfg(feature = "nats")]
pub mod nats;
mod operator_text;
mod publisher;
mod redacted;
#[cfg(feature = "redis-streams")]
pub mod redis_streams;
mod settings;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis-streams"))]
mod shared_connection;
mod template;
#[cfg(any(feature = "amqp", feature = "http", feature = "nats", feature = "redis-streams"))]
mod tls;
mod unsendable;
mod url;

pub use check_error::CheckError;
pub use error::PublisherError;
pub use format::{Format, UnknownFormat};
pub use from_url::publisher;
pub use publisher::Publisher;

/// Compiles the examples of the README and of the repository's pages about publishers as doc tests.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "lines")]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "kafka")]
    #[doc = include_str!("../../../docs/kafka.md")]
    struct Kafka;
    #[cfg(feature = "nats")]
    #[doc = include_str!("../../../docs/nats.md")]
    struct Nats;
    #[cfg(feature = "amqp")]
    #[doc = include_str!("../../../docs/rabbitmq.md")]
    struct RabbitMq;
    #[cfg(feature = "redis-streams")]
    #[doc = include_str!("../../../docs/redis-streams.md")]
    struct RedisStreams;
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../docs/webhooks.md")]
    struct Webhooks;
}
