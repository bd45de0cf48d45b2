//! Destinations that send events to message brokers, webhooks, files and standard output.
//!
//! Three words, from the wide to the narrow: a [`Destination`](posthaste::Destination) is whatever a route delivers
//! to, an async function too. A publisher is a destination of this crate. [`Publisher`] is the trait that they all
//! implement: a destination that can also be checked and diagnosed.
//!
//! A publisher is built from a URL by [`publisher()`], or by its own builder. Its API contains no type of the client
//! library below it. Building one checks the settings and connects nowhere: a broker that is down is an outage, not an
//! error, and spends no attempts. [`Publisher::check`] tells beforehand whether the broker is reachable.
//!
//! # Features
//!
//! None is on by default.
//!
//! | Feature | Module | Events go to |
//! |---|---|---|
//! | `amqp` | `amqp` | RabbitMQ, by AMQP 0.9.1 (Unix only) |
//! | `http` | `http` | webhooks |
//! | `kafka` | `kafka` | Apache Kafka; builds librdkafka, which needs a C compiler and make |
//! | `kafka-tls` | `kafka` | Apache Kafka with TLS and SCRAM, by the system's OpenSSL; includes `kafka` |
//! | `lines` | `lines` | standard output and files |
//! | `nats` | `nats` | NATS JetStream |
//! | `redis-streams` | `redis_streams` | Redis Streams |
//!
//! What a message looks like is the same everywhere: see [`Format`].

// Each publisher uses some of what they share.
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

mod address;
#[cfg(feature = "amqp")]
pub mod amqp;
mod error;
mod format;
mod from_url;
mod hidden;
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
mod one_line;
mod publisher;
#[cfg(feature = "redis-streams")]
pub mod redis_streams;
mod settings;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis-streams"))]
mod shared_connection;
mod template;
#[cfg(any(feature = "amqp", feature = "http", feature = "nats", feature = "redis-streams"))]
mod tls;
mod unreached;
mod unsendable;
mod url;

pub use error::PublisherError;
pub use format::{Format, UnknownFormat};
pub use from_url::publisher;
pub use publisher::Publisher;
pub use unreached::Unreached;

/// The pages of this repository about publishers, so that their programs are compiled.
#[cfg(doctest)]
mod pages {
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
