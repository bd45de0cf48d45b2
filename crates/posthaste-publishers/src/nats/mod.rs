//! NATS JetStream destination.
//!
//! - `builder` reads and checks the `settings`.
//! - `message` converts an event into a message, or refuses it.
//! - `connection` holds the connection, sends messages and awaits their acknowledgements.
//! - `check` implements the check of the server, `diagnose` the diagnosis of the stream.

mod builder;
mod check;
mod connection;
mod diagnose;
mod message;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::time::{Instant, timeout_at};

use crate::error::PublisherError;
use crate::redacted::Redacted;
use crate::settings::Broker;
use crate::shared_connection::SharedConnection;
use crate::unsendable::Unsendable;
pub use builder::NatsBuilder;
use connection::{Connection, SentMessage, StreamLookups};
use message::NatsMessage;
use settings::Settings;

const BROKER: Broker = Broker { name: "NATS", scheme: "nats", tls_scheme: "tls" };

/// The largest batch, in events.
const BATCH_EVENTS: usize = 500;

/// Publishes to subjects that a JetStream stream stores. An event is delivered when the stream has acknowledged
/// that it has stored it.
///
/// `Nats-Msg-Id` contains the event's id and a hash of the message. A message that is sent twice within the
/// stream's duplicate window is stored once. Two different events with the same id are both stored. An operator's
/// replay has a message id of its own, so that it is stored again.
///
/// ```
/// use posthaste_publishers::nats::NatsPublisher;
///
/// let by_url = NatsPublisher::from_url("nats://me:secret@localhost:4222/shop.{aggregate_type}?stream=SHOP")?;
/// let built = NatsPublisher::builder(["localhost:4222"])
///     .subject("shop.{aggregate_type}")
///     .login("me", "secret")
///     .stream("SHOP")
///     .build()?;
/// # let _ = (by_url, built);
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
///
/// Clones share one connection.
#[derive(Clone, Debug)]
pub struct NatsPublisher {
    settings: Arc<Settings>,
    shared_connection: Redacted<Arc<SharedConnection<Connection>>>,
}

impl NatsPublisher {
    /// Builds a publisher from `nats://user:password@host:4222,host:4222/subject?…`, or from `tls://…` for TLS.
    ///
    /// The parameters are `format`, `stream`, `token`, `creds` and `nkey` (paths of files), `ca` (the path of a PEM
    /// file), `timeout` in seconds and `core`; see [`NatsBuilder`].
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the wrong setting.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        NatsBuilder::from_url(url)?.build()
    }

    /// Starts a builder for these servers, each `host:port` or `host`. They are tried one after the other.
    pub fn builder<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> NatsBuilder {
        NatsBuilder::new(hosts.into_iter().map(Into::into).collect())
    }

    fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), shared_connection: Redacted::default() }
    }

    /// Returns the connection. Opens one if there is none.
    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, String> {
        let connect = self.shared_connection.get(Connection::is_good, Connection::open(&self.settings));
        timeout_at(deadline, connect).await.unwrap_or_else(|_| Err(self.settings.no_connection()))
    }

    /// Publishes the messages and returns one outcome per event, in order. Some events may have been refused
    /// already.
    async fn publish(&self, messages: Vec<Result<NatsMessage, Unsendable>>) -> Vec<Outcome> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = match self.connection(deadline).await {
            Ok(connection) => connection,
            Err(why) => return no_connection(messages, &why),
        };
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            sent.push(match message {
                Ok(message) => connection.send(message, deadline).await,
                Err(unsendable) => SentMessage::Resolved(unsendable.into()),
            });
        }
        if self.settings.core {
            connection.flush(&mut sent, deadline).await;
        }
        let mut outcomes = Vec::with_capacity(sent.len());
        let mut lookups = StreamLookups::default();
        for sent in sent {
            outcomes.push(connection.outcome(sent, &mut lookups, deadline).await);
        }
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unreachable(_))) {
            // The server may have stopped responding. A new connection is cheap, and duplicates are stored once.
            self.shared_connection.give_up(&connection);
        }
        outcomes
    }
}

#[async_trait]
impl Destination for NatsPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let messages: Vec<_> = batch.iter().map(|delivery| self.settings.message(delivery)).collect();
        if messages.iter().all(Result::is_err) {
            return no_connection(messages, "");
        }
        self.publish(messages).await
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH_EVENTS)
    }
}

/// The outcomes of a batch without a connection. Events that can never be sent are refused nevertheless.
fn no_connection(messages: Vec<Result<NatsMessage, Unsendable>>, why: &str) -> Vec<Outcome> {
    let outcome = |message: Result<NatsMessage, Unsendable>| match message {
        Ok(_) => Outcome::no_connection(why),
        Err(unsendable) => unsendable.into(),
    };
    messages.into_iter().map(outcome).collect()
}
