//! Where events go from here: message brokers, webhooks, files.
//!
//! Every publisher is a [`Destination`](posthaste::Destination), built from a URL or by a builder, and none
//! shows a type of the library that it stands on. Building one checks the settings and connects nowhere: a
//! broker that is down is not an error but an outage, which spends no attempts. Who wants to know beforehand
//! whether it is there asks by [`Publisher::check`].
//!
//! # Layout
//!
//! - [`publisher()`] builds any of them from its URL.
//! - [`Publisher`] is what they are beside destinations: something that can be asked whether it is there.
//! - `kafka`, `amqp`, `nats`, `redis_streams`, `http` and `lines` are the publishers, one feature each.
//! - [`Format`] says what a message looks like.

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

#[cfg(feature = "amqp")]
pub mod amqp;
mod error;
mod format;
mod from_url;
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
