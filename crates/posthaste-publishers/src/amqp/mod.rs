//! RabbitMQ destination (AMQP 0.9.1).
//!
//! - `builder` reads and checks the `settings`.
//! - `message` converts an event into a message, or refuses it.
//! - `exchanges` looks exchanges up before anything is sent to them.
//! - `connection` holds the connection and its channels.
//! - `confirm` sends a batch and waits for the confirmations; `outcome` turns them into outcomes.
//! - `check` implements the check of the broker, `diagnose` the diagnosis of its queues.
//! - `management` asks the management plugin for the queues behind an exchange.

mod builder;
mod check;
mod confirm;
mod connection;
mod diagnose;
mod exchanges;
mod login;
mod management;
mod message;
mod outcome;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::time::Instant;

pub use builder::AmqpBuilder;

use connection::{AmqpConnection, Connector, NO_ANSWER_REASON};
use message::PreparedMessage;
use outcome::Undecided;
use settings::Settings;

use crate::error::PublisherError;
use crate::redacted::Redacted;
use crate::settings::Broker;

const BROKER: Broker = Broker { name: "RabbitMQ", scheme: "amqp", tls_scheme: "amqps" };

/// The largest batch, in events.
const BATCH_EVENTS: usize = 500;

/// Publishes to RabbitMQ: `amqp://user:password@host:5672/vhost?exchange=orders`.
///
/// An event is delivered when RabbitMQ has confirmed its message. Messages are persistent and mandatory: RabbitMQ
/// returns a message that no queue takes, which is a failed attempt. A broker that is down costs no attempts, and
/// neither does a queue that is full.
///
/// Clones share one connection.
///
/// ```
/// use posthaste_publishers::amqp::AmqpPublisher;
///
/// let publisher = AmqpPublisher::builder(["rabbit-1", "rabbit-2:5672"])
///     .login("shop", "secret")
///     .vhost("production")
///     .exchange("events")
///     .routing_key("{aggregate_type}.{event_type}")
///     .build()?;
/// # let _ = publisher;
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AmqpPublisher {
    settings: Arc<Settings>,
    connector: Redacted<Arc<Connector>>,
}

impl AmqpPublisher {
    /// Builds a publisher from `amqp://user:password@host:5672,host:5672/vhost?exchange=…&routing_key=…`, or from
    /// `amqps://…` for TLS.
    ///
    /// Defaults: `guest` for user and password, port 5672 (5671 with TLS), and the vhost `/`. The parameters are
    /// `exchange`, `routing_key`, `format`, `timeout` in seconds, `max_message_bytes`, `ca` (the path of a PEM
    /// file) and `management`; see [`AmqpBuilder`].
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the wrong setting.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        AmqpBuilder::from_url(url)?.build()
    }

    /// Starts a builder for these hosts, each `host` or `host:port`. The first host that accepts the login is used.
    pub fn builder<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> AmqpBuilder {
        AmqpBuilder::new(hosts.into_iter().map(Into::into).collect())
    }

    fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self { connector: Redacted(Arc::new(Connector::new(Arc::clone(&settings)))), settings }
    }

    /// Sends the messages and writes their outcomes. Events without a message have their outcomes already.
    async fn send(
        &self,
        messages: Vec<PreparedMessage>,
        outcomes: &mut [Option<Outcome>],
        deadline: Instant,
    ) {
        let connection = match self.connector.get(deadline).await {
            Ok(connection) => connection,
            Err(why) => {
                for message in messages {
                    outcomes[message.at] = Some(Outcome::no_connection(why.clone()));
                }
                return;
            }
        };
        let mut waiting = connection.refuse_large_headers(messages, outcomes);
        connection.refuse_missing_exchanges(&mut waiting, outcomes, deadline).await;
        let undecided = confirm::publish(&connection, &waiting, outcomes, deadline).await;
        if !undecided.is_empty() {
            self.send_one_by_one(&connection, waiting, undecided, outcomes, deadline).await;
        }
    }

    /// Sends undecided messages again, one at a time. One of them made the broker close the channel or was
    /// returned, and the broker does not say which; a message that is sent alone gets a result of its own.
    async fn send_one_by_one(
        &self,
        connection: &AmqpConnection,
        messages: Vec<PreparedMessage>,
        undecided: Vec<Undecided>,
        outcomes: &mut [Option<Outcome>],
        deadline: Instant,
    ) {
        let mut messages: Vec<Option<PreparedMessage>> = messages.into_iter().map(Some).collect();
        let mut again: Vec<PreparedMessage> =
            undecided.iter().filter_map(|undecided| messages[undecided.at].take()).collect();
        connection.forget_exchanges();
        connection.refuse_missing_exchanges(&mut again, outcomes, deadline).await;
        for message in &again {
            let alone = std::slice::from_ref(message);
            for Undecided { why, .. } in confirm::publish(connection, alone, outcomes, deadline).await {
                outcomes[message.at] = Some(Outcome::retry(format!("RabbitMQ refused the message: {why}")));
            }
        }
    }
}

#[async_trait]
impl Destination for AmqpPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let mut outcomes: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        let mut messages = Vec::with_capacity(batch.len());
        for (at, delivery) in batch.iter().enumerate() {
            match self.settings.message(at, delivery) {
                Ok(message) => messages.push(message),
                Err(unsendable) => outcomes[at] = Some(unsendable.into()),
            }
        }
        if !messages.is_empty() {
            self.send(messages, &mut outcomes, deadline).await;
        }
        let unknown = || Outcome::no_answer(NO_ANSWER_REASON);
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(unknown)).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH_EVENTS)
    }
}
