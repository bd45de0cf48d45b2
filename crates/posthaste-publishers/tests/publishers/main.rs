//! Every publisher on the real thing behind it: one program, because it links a lot.
//!
//! Each publisher has a module: the destinations' suite, and what only it can get wrong. The files beside
//! them are what all of them share.

/// RabbitMQ.
#[cfg(feature = "amqp")]
mod amqp;
/// A broker is away for half a minute, holds its answers longer than a lease, or is away when we have to go.
mod broker_faults;
/// Publishers, what they are given, and what came of it.
mod delivery;
/// Webhooks.
#[cfg(feature = "http")]
mod http;
/// Apache Kafka.
#[cfg(feature = "kafka")]
mod kafka;
/// Lines in a file.
#[cfg(feature = "lines")]
mod lines;
/// NATS JetStream.
#[cfg(feature = "nats")]
mod nats;
/// Redis Streams.
#[cfg(feature = "redis-streams")]
mod redis_streams;
/// A password that must be in no text and in no log.
mod secrets;
