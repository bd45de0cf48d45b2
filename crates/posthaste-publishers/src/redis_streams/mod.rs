//! Redis Streams destination: adds each event to a stream with `XADD`.
//!
//! - `builder` reads and checks the `settings`; `allowed_topics` is the allow list of topics.
//! - `entry` converts events into entries and groups them into pipelines.
//! - `outcome` turns the reply to an entry into an outcome.
//! - `check` implements the check of the server, `diagnose` the diagnosis of its settings.

mod allowed_topics;
mod builder;
mod check;
mod diagnose;
mod entry;
mod outcome;
mod settings;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Pipeline, RedisError, Value};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::PublisherError;
use crate::redacted::Redacted;
use crate::settings::Broker;
use crate::shared_connection::SharedConnection;
pub use builder::RedisStreamBuilder;
use entry::{Entry, EntryPipeline};
use settings::Settings;

const BROKER: Broker = Broker { name: "Redis Streams", scheme: "redis-stream", tls_scheme: "rediss-stream" };

/// The largest batch, in events.
const BATCH_EVENTS: usize = 500;

/// The largest pipeline in bytes. One pipeline must get all its replies within one timeout.
const MAX_PIPELINE_BYTES: usize = 8 << 20;

/// The shortest time between two new connections to a server that refuses writes.
const REPLACEMENT_DELAY: Duration = Duration::from_secs(1);

/// Adds each event to a stream with `XADD`. An event is delivered when Redis has replied with the id of its entry.
/// Whether the entry survives the loss of the server depends on `appendfsync` and `min-replicas-to-write`.
///
/// An entry has the fields `id`, `type`, `key` (the aggregate id), `content-type` and `payload`, and a field
/// `header:NAME` for each header. Redis does not drop duplicates: consumers recognise them by the field `id`.
///
/// ```
/// use posthaste_publishers::redis_streams::RedisStreamPublisher;
///
/// let by_url = RedisStreamPublisher::from_url(
///     "redis-stream://me:secret@localhost:6379/0?stream=shop:{aggregate_type}&maxlen=100000",
/// )?;
/// let built = RedisStreamPublisher::builder("localhost:6379")
///     .stream("shop:{aggregate_type}")
///     .login("me", "secret")
///     .max_length(100_000)
///     .build()?;
/// # let _ = (by_url, built);
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
///
/// Clones share one connection.
#[derive(Clone, Debug)]
pub struct RedisStreamPublisher {
    settings: Arc<Settings>,
    /// Replaced after a failure, and after a reply that says that the server is not the primary.
    shared_connection: Redacted<Arc<SharedConnection<Connection>>>,
}

struct Connection {
    multiplexed: MultiplexedConnection,
    made_at: Instant,
}

impl RedisStreamPublisher {
    /// Builds a publisher from `redis-stream://user:password@host:6379/0?stream=…`, or from `rediss-stream://…` for
    /// TLS.
    ///
    /// The other parameters are `topics`, `maxlen`, `approximate`, `format`, `max_message_bytes`, `ca` (the path of
    /// a PEM file) and `timeout` in seconds; see [`RedisStreamBuilder`].
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the wrong setting.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        RedisStreamBuilder::from_url(url)?.build()
    }

    /// Starts a builder for this server, `host:port` or `host`.
    pub fn builder(host: impl Into<String>) -> RedisStreamBuilder {
        RedisStreamBuilder::new(host.into())
    }

    fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), shared_connection: Redacted::default() }
    }

    async fn connect(&self) -> Result<Connection, String> {
        let limit = self.settings.common.timeout;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(limit))
            .set_connection_timeout(Some(limit));
        let connect = async {
            let mut connection =
                self.settings.client.get_multiplexed_async_connection_with_config(&config).await?;
            // A wrong login must fail here: Redis refuses a long entry of an unauthenticated client as a protocol
            // error.
            match redis::cmd("PING").exec_async(&mut connection).await {
                Err(error) if outcome::is_login_error(&error) => Err(error),
                _ => Ok(connection),
            }
        };
        match timeout(limit, connect).await {
            Ok(Ok(multiplexed)) => Ok(Connection { multiplexed, made_at: Instant::now() }),
            Ok(Err(error)) => Err(outcome::no_connection(&error, &self.settings)),
            Err(_) => Err(outcome::no_connection(&timed_out(), &self.settings)),
        }
    }

    /// Adds the entries in one pipeline. It is not a transaction: each entry has its own reply.
    async fn add_entries(&self, entries: &EntryPipeline, deadline: Instant) -> Vec<Outcome> {
        let count = entries.streams.len();
        let connection =
            match timeout_at(deadline, self.shared_connection.get(|_| true, self.connect())).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(why)) => return repeated(count, || Outcome::no_connection(why.clone())),
                Err(_) => return repeated(count, || outcome::of_expired_deadline(&self.settings)),
            };
        match self.query(&connection, &entries.pipeline, count, deadline).await {
            Ok(replies) => {
                if replies.iter().any(outcome::is_not_primary) {
                    self.replace_if_old(&connection);
                }
                let outcomes = replies.iter().zip(&entries.streams);
                outcomes.map(|(reply, stream)| outcome::of_reply(reply, stream)).collect()
            }
            Err(error) => repeated(count, || outcome::of_lost_reply(error.as_ref(), &self.settings)),
        }
    }

    /// Makes the next call open a new connection, which reaches the primary if the host name or address has moved
    /// there. Does nothing for a connection younger than `REPLACEMENT_DELAY`, because a server may refuse writes
    /// for hours.
    fn replace_if_old(&self, connection: &Arc<Connection>) {
        if connection.made_at.elapsed() >= REPLACEMENT_DELAY {
            self.shared_connection.give_up(connection);
        }
    }

    /// Returns one reply per command, or the error, which is `None` if the number of replies is wrong. After an
    /// error the next call opens a new connection, because a connection that stopped replying can stay so for
    /// minutes.
    async fn query(
        &self,
        connection: &Arc<Connection>,
        pipeline: &Pipeline,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Value>, Option<RedisError>> {
        let mut multiplexed = connection.multiplexed.clone();
        let until = deadline.min(Instant::now() + self.settings.common.timeout);
        let lost = match timeout_at(until, multiplexed.req_packed_commands(pipeline, 0, count)).await {
            Ok(Ok(replies)) if replies.len() == count => return Ok(replies),
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(timed_out()),
        };
        self.shared_connection.give_up(connection);
        Err(lost)
    }
}

#[async_trait]
impl Destination for RedisStreamPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let entries = batch.iter().map(|delivery| Entry::new(delivery, &self.settings));
        let (mut good, mut unsendable) = (Vec::with_capacity(batch.len()), Vec::new());
        for (at, entry) in entries.enumerate() {
            match entry {
                Ok(entry) => good.push(entry),
                Err(why) => unsendable.push((at, why)),
            }
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        let (count, deadline) = (good.len(), Instant::now() + self.settings.call_timeout());
        for pipeline in EntryPipeline::split(good.into_iter(), MAX_PIPELINE_BYTES) {
            outcomes.extend(self.add_entries(&pipeline, deadline).await);
            if let Some(Outcome::Unreachable(why)) = outcomes.last() {
                let why = why.error.to_string();
                // The rest is not sent: it would time out too, and a later event must not arrive before an earlier
                // one.
                outcomes.extend(repeated(count - outcomes.len(), || Outcome::no_answer(why.clone())));
                break;
            }
        }
        // In ascending order, so that each index is that of the batch.
        for (at, why) in unsendable {
            outcomes.insert(at, why.into());
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH_EVENTS)
    }
}

fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

fn repeated(count: usize, outcome: impl Fn() -> Outcome) -> Vec<Outcome> {
    std::iter::repeat_with(outcome).take(count).collect()
}
