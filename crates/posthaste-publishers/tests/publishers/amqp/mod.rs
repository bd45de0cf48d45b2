//! RabbitMQ: the conformance suite, the common broker faults, and cases that only RabbitMQ has.

/// Memory alarms.
mod alarm;
/// The conformance suite, broker faults and outages.
mod broker;
/// Missing exchanges, full queues, events for which the broker closes the channel.
mod channel;
/// Findings of the diagnosis.
mod diagnosis;
/// Secrets in logs.
mod log;
/// Wrong logins, vhosts, hosts and settings.
mod login;
/// Helper: a private RabbitMQ node.
mod node;
/// A foreign consumer: pika.
mod pika;
/// Helper: an exchange with a queue.
mod queue;
/// Certificates.
mod tls;

use posthaste_testkit::variable;

/// The URL of the server that all tests share.
fn shared() -> String {
    variable("POSTHASTE_TEST_AMQP_URL")
}
