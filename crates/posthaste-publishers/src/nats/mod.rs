//! NATS JetStream: each event is stored by a stream, which says so.

mod builder;
mod connection;
mod diagnose;
mod message;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::admin::Finding;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::time::{Instant, timeout_at};

use crate::error::PublisherError;
use crate::hidden::Hidden;
use crate::publisher::Publisher;
use crate::settings::Broker;
use crate::shared_connection::SharedConnection;
use crate::unreached::Unreached;
use crate::unsendable::Unsendable;
pub use builder::NatsBuilder;
use connection::{Connection, SentMessage, StreamLookups};
use message::NatsMessage;
use settings::Settings;

const BROKER: Broker = Broker { name: "NATS", scheme: "nats", tls_scheme: "tls" };

/// Events per call.
const BATCH_EVENTS: usize = 500;

/// Publishes to a subject that a JetStream stream takes. An event is delivered when the stream says that it
/// has stored it.
///
/// The event's id goes out as `Nats-Msg-Id`, with a hash of the message behind it: what is sent twice within the
/// stream's duplicate window is stored once, and two events that have the same id are both stored. An operator's
/// replay has an id of its own there, so that it is stored again.
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
    shared_connection: Hidden<Arc<SharedConnection<Connection>>>,
}

impl NatsPublisher {
    /// From `nats://user:password@host:4222,host:4222/subject?…`, or `tls://…`. The parameters are `format`,
    /// `stream`, `token`, `creds` and `nkey` (files), `ca` (a file), `timeout` (seconds) and `core`.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        NatsBuilder::from_url(url)?.build()
    }

    /// For these servers, `host:port` or `host`; the next one is tried where one is out of reach.
    pub fn builder<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> NatsBuilder {
        NatsBuilder::new(hosts.into_iter().map(Into::into).collect())
    }

    fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), shared_connection: Hidden::default() }
    }

    /// The connection, made if there is none.
    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, String> {
        let connect = self.shared_connection.get(Connection::is_good, Connection::open(&self.settings));
        timeout_at(deadline, connect).await.unwrap_or_else(|_| Err(self.settings.no_connection()))
    }

    /// One outcome each, for events of which some are refused already.
    async fn publish(&self, messages: Vec<Result<NatsMessage, Unsendable>>) -> Vec<Outcome> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = match self.connection(deadline).await {
            Ok(connection) => connection,
            Err(why) => return out_of_reach(messages, &why),
        };
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            sent.push(match message {
                Ok(message) => connection.send(message, deadline).await,
                Err(unsendable) => SentMessage::Answered(unsendable.into()),
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
            // It may have gone silent; a new one costs little, and what comes twice is stored once.
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
            return out_of_reach(messages, "");
        }
        self.publish(messages).await
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH_EVENTS)
    }
}

#[async_trait]
impl Publisher for NatsPublisher {
    async fn check(&self) -> Result<(), Unreached> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = self.connection(deadline).await.map_err(Unreached::new)?;
        let answer = connection.check(deadline).await;
        if answer.is_err() {
            self.shared_connection.give_up(&connection);
        }
        answer.map_err(Unreached::new)
    }

    async fn diagnose(&self) -> Vec<Finding> {
        if let Err(why) = self.check().await {
            return vec![why.into()];
        }
        let deadline = Instant::now() + self.settings.common.timeout;
        match self.connection(deadline).await {
            Ok(connection) => connection.diagnose(&self.settings, deadline).await,
            Err(why) => vec![Unreached::new(why).into()],
        }
    }
}

/// What is refused stays so while the server is away.
fn out_of_reach(messages: Vec<Result<NatsMessage, Unsendable>>, why: &str) -> Vec<Outcome> {
    let outcome = |message: Result<NatsMessage, Unsendable>| match message {
        Ok(_) => Outcome::no_connection(why),
        Err(unsendable) => unsendable.into(),
    };
    messages.into_iter().map(outcome).collect()
}
