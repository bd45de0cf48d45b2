//! Redis Streams: each event is an entry, which the server has written before it answers.

mod answer;
mod entry;
mod settings;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Pipeline, RedisError};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::PublisherError;
use crate::link::Link;
use crate::refused::Refused;
use entry::Entry;
pub use settings::RedisStreamBuilder;
use settings::Settings;

const NAME: &str = "Redis Streams";

/// Events per call.
const BATCH: usize = 500;

/// What goes out at once: more than this has to be answered within one timeout.
const PIPELINE_BYTES: usize = 8 << 20;

/// Adds each event to a stream, by `XADD`. An event is delivered when Redis has answered with the id of its
/// entry; what that is worth when a server dies, `appendfsync` and `min-replicas-to-write` say.
///
/// An entry has the fields `id`, `type`, `key` (the aggregate id), `content-type` and `payload`, and a field
/// `header:NAME` for each header. Redis does not know repeats: consumers know them by the field `id`.
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
#[derive(Clone)]
pub struct RedisStreamPublisher {
    settings: Arc<Settings>,
    link: Arc<Link<MultiplexedConnection>>,
}

impl RedisStreamPublisher {
    /// From `redis-stream://user:password@host:6379/0?stream=…`, or `rediss-stream://…` for TLS. The other
    /// parameters are `maxlen`, `approximate`, `format`, `max_message_bytes`, `ca` (a file) and `timeout`
    /// (seconds).
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        RedisStreamBuilder::from_url(url)?.build()
    }

    /// For this server, `host:port` or `host`.
    pub fn builder(host: impl Into<String>) -> RedisStreamBuilder {
        RedisStreamBuilder::new(host.into())
    }

    fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), link: Arc::default() }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, String> {
        let limit = self.settings.timeout;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(limit))
            .set_connection_timeout(Some(limit));
        let connect = async {
            let mut connection =
                self.settings.client.get_multiplexed_async_connection_with_config(&config).await?;
            // Who should have logged in learns of it here. Entries would be refused as too long for strangers.
            match redis::cmd("PING").exec_async(&mut connection).await {
                Err(error) if answer::is_login(&error) => Err(error),
                _ => Ok(connection),
            }
        };
        match timeout(limit, connect).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(answer::no_connection(&error, &self.settings)),
            Err(_) => Err(format!("no connection to Redis at {} within {limit:?}", self.settings.place)),
        }
    }

    /// Adds them in one go, though not as a transaction: each has its own answer.
    async fn add(&self, entries: &[&Entry], deadline: Instant) -> Vec<Outcome> {
        let connection = match timeout_at(deadline, self.link.get(|_| true, self.connect())).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return entries.iter().map(|_| Outcome::no_connection(why.clone())).collect(),
            Err(_) => return entries.iter().map(|_| answer::too_late(&self.settings)).collect(),
        };
        let mut pipeline = Pipeline::with_capacity(entries.len());
        for entry in entries {
            pipeline.add_command(entry.command().clone());
        }
        let mut shared = MultiplexedConnection::clone(&connection);
        let until = deadline.min(Instant::now() + self.settings.timeout);
        match timeout_at(until, shared.req_packed_commands(&pipeline, 0, entries.len())).await {
            Ok(Ok(answers)) if answers.len() == entries.len() => {
                let outcomes = answers.into_iter().zip(entries);
                outcomes.map(|(answer, entry)| answer::outcome(&answer, entry.stream())).collect()
            }
            Ok(Ok(_)) => self.lost(&connection, entries, None),
            Ok(Err(error)) => self.lost(&connection, entries, Some(error)),
            Err(_) => self.lost(
                &connection,
                entries,
                Some(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
            ),
        }
    }

    /// The next call connects anew: a connection that went silent would stay so for minutes.
    fn lost(
        &self,
        connection: &Arc<MultiplexedConnection>,
        entries: &[&Entry],
        error: Option<RedisError>,
    ) -> Vec<Outcome> {
        self.link.give_up(connection);
        entries.iter().map(|_| answer::lost(error.as_ref(), &self.settings)).collect()
    }
}

#[async_trait]
impl Destination for RedisStreamPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let entries: Vec<Result<Entry, Refused>> =
            batch.iter().map(|delivery| Entry::new(delivery, &self.settings)).collect();
        let good: Vec<&Entry> = entries.iter().flatten().collect();
        let mut answers = Vec::with_capacity(good.len());
        let deadline = Instant::now() + self.settings.call();
        for entries in pipelines(&good) {
            answers.extend(self.add(entries, deadline).await);
            if let Some(Outcome::Unreachable(why)) = answers.last() {
                let why = why.error.to_string();
                // Whoever was silent once would be so again, and what comes later must not come first.
                answers.extend((answers.len()..good.len()).map(|_| Outcome::no_answer(why.clone())));
                break;
            }
        }
        let mut answers = answers.into_iter();
        let missing = || Outcome::no_answer("Redis gave no answer");
        let outcome = |entry: &Result<Entry, Refused>| match entry {
            Ok(_) => answers.next().unwrap_or_else(missing),
            Err(refused) => refused.clone().into(),
        };
        entries.iter().map(outcome).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH)
    }
}

/// Runs of entries that are not too large together; one that is too large by itself is alone.
fn pipelines<'a, 'b>(entries: &'a [&'b Entry]) -> Vec<&'a [&'b Entry]> {
    let (mut runs, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        if at > begin && bytes + entry.bytes() > PIPELINE_BYTES {
            runs.push(&entries[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += entry.bytes();
    }
    runs.push(&entries[begin..]);
    runs.retain(|run| !run.is_empty());
    runs
}

impl fmt::Debug for RedisStreamPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStreamPublisher").field(&self.settings).finish()
    }
}
