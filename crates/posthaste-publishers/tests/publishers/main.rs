//! Tests of every publisher on a real broker or endpoint. They are one program, because linking the client
//! libraries takes long.
//!
//! Each publisher has a module with the conformance suite, the common broker faults and its own cases. The other
//! modules are shared.

/// RabbitMQ.
#[cfg(feature = "amqp")]
mod amqp;
/// Faults that all brokers have in common: outage, slow replies, shutdown, back-pressure.
mod broker_faults;
/// Helpers: publishers, events and outcomes.
mod delivery;
/// Webhooks.
#[cfg(feature = "http")]
mod http;
/// Apache Kafka.
#[cfg(feature = "kafka")]
mod kafka;
/// JSON lines.
#[cfg(feature = "lines")]
mod lines;
/// NATS JetStream.
#[cfg(feature = "nats")]
mod nats;
/// Redis Streams.
#[cfg(feature = "redis-streams")]
mod redis_streams;
/// Helpers: a secret that no text and no log may contain.
mod secrets;
