//! RabbitMQ: the suite, and what only it can get wrong.

/// A node that is short of memory.
mod alarm;
/// The suite, and outages.
mod broker;
/// Exchanges that are not there, queues that are full, events that break their channel.
mod channel;
/// What a doctor finds.
mod diagnosis;
/// What stands in the log.
mod log;
/// Logins, vhosts and hosts that are wrong; settings, and what is shown of them.
mod login;
/// Nodes of a test's own.
mod node;
/// A consumer that others wrote.
mod pika;
/// Exchanges and queues, and what arrived in them.
mod queue;
/// Certificates.
mod tls;

use posthaste_testkit::variable;

/// The URL of the server that all tests share.
fn shared() -> String {
    variable("POSTHASTE_TEST_AMQP_URL")
}
