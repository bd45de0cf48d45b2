//! The connections to the server or the cluster: two for many calls, none of which waits for ever.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::store::Notifier;
use redis::aio::MultiplexedConnection;
#[cfg(feature = "cluster")]
use redis::cluster::ClusterClientBuilder;
#[cfg(feature = "cluster")]
use redis::cluster_async::ClusterConnection;
#[cfg(feature = "cluster")]
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::Mutex;
#[cfg(feature = "cluster")]
use tokio::time::timeout;
use tokio::time::{Instant, sleep};

use crate::error::is_unreachable;

/// How long a server may take to answer a call, and to accept a connection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// While a server sends bodies it is asked so often whether it is still there.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a connection is kept to a server that refuses to write: it may do so for hours.
const REPLACEMENT_DELAY: Duration = Duration::from_secs(1);

/// The name of a server that is the only one.
pub(crate) const SINGLE_SERVER_NAME: &str = "the server";

/// The connections of a store, which its calls share. Replies that hold bodies come on a connection of their own: over
/// a slow network they take their time, and no other call waits behind them.
#[derive(Clone)]
pub(crate) enum RedisConnections {
    Server(Arc<ServerConnections>),
    #[cfg(feature = "cluster")]
    Cluster(ConnectionPair<ClusterConnection>),
}

/// A connection for calls, and one for answers that hold bodies.
#[derive(Clone)]
pub(crate) struct ConnectionPair<C> {
    calls: C,
    bodies: C,
}

impl RedisConnections {
    pub(crate) async fn to_server(client: Client) -> RedisResult<Self> {
        let server = ServerConnections::new(client);
        server.current_pair().await?;
        Ok(Self::Server(Arc::new(server)))
    }

    #[cfg(feature = "cluster")]
    pub(crate) async fn to_cluster(client: impl Fn() -> ClusterClientBuilder) -> RedisResult<Self> {
        let client = || client().connection_timeout(CONNECT_TIMEOUT);
        // Who calls repeats, so that no call waits for long.
        let calls = client()
            .response_timeout(REPLY_TIMEOUT)
            .overall_response_timeout(Some(2 * REPLY_TIMEOUT))
            .build()?;
        let bodies = client().build()?;
        let (calls, bodies) = tokio::try_join!(calls.get_async_connection(), bodies.get_async_connection())?;
        Ok(Self::Cluster(ConnectionPair { calls, bodies }))
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        match self {
            Self::Server(server) => server.query(cmd).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cmd.query_async(&mut cluster.calls.clone()).await,
        }
    }

    /// A call whose answer holds bodies. How long that may take depends on the line, which only the caller can
    /// know: it ends the call by dropping it. Where the server that has `key` falls silent the call fails by itself.
    pub(crate) async fn query_bodies<T: FromRedisValue>(&self, cmd: &Cmd, key: &str) -> RedisResult<T> {
        match self {
            Self::Server(server) => server.query_bodies(cmd, key).await,
            // What a node still sends to a caller that gave up keeps only calls to that node waiting.
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let mut bodies = cluster.bodies.clone();
                tokio::select! {
                    answer = cmd.query_async(&mut bodies) => answer,
                    silence = self.wait_for_silence(key) => Err(silence),
                }
            }
        }
    }

    /// Ends when the node that has this key does not answer other calls in time.
    #[cfg(feature = "cluster")]
    async fn wait_for_silence(&self, key: &str) -> RedisError {
        loop {
            sleep(PROBE_INTERVAL).await;
            let answer = timeout(REPLY_TIMEOUT, self.query::<Value>(&probe(key))).await;
            match answer.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
                Err(error) if is_unreachable(&error) => return error,
                _ => {}
            }
        }
    }

    /// Asks the server, or every primary of a cluster; each answer comes with the name of who gave it.
    pub(crate) async fn query_each<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<Vec<(String, T)>> {
        match self {
            Self::Server(server) => Ok(vec![(SINGLE_SERVER_NAME.to_owned(), server.query(cmd).await?)]),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let primaries = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = cluster.calls.clone().route_command(cmd.clone(), primaries).await?;
                let answers: Vec<(String, T)> = redis::from_redis_value(answers)?;
                Ok(answers.into_iter().map(|(node, answer)| (format!("the node {node}"), answer)).collect())
            }
        }
    }

    /// Waits until a connection has turned out to lead to the wrong server: others may do so as well.
    pub(crate) async fn moved(&self) {
        match self {
            Self::Server(server) => server.moved.notified().await,
            // The driver follows the roles of the nodes.
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => std::future::pending().await,
        }
    }

    /// Whether keys in different slots cannot stand in one transaction.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) => false,
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => true,
        }
    }
}

/// Any server that answers this is there.
fn probe(key: &str) -> Cmd {
    let mut probe = redis::cmd("EXISTS");
    probe.arg(key);
    probe
}

/// The connections to one server. The driver's own manager keeps a connection that went silent, so that every call
/// on it fails until the operating system gives up: this one does not.
pub(crate) struct ServerConnections {
    client: Client,
    current: Mutex<CurrentPair>,
    /// The generation of the last connections that were lost, and of the last ones whose bodies a caller did not wait
    /// for.
    lost: AtomicU64,
    given_up: AtomicU64,
    /// Notified when connections were given up because they led to the wrong server.
    moved: Notifier,
}

#[derive(Default)]
struct CurrentPair {
    /// Made together, so that both lead to the same server where the address moves: an event that is claimed at one
    /// server would be settled at another.
    pair: Option<ConnectionPair<MultiplexedConnection>>,
    made_at: Option<Instant>,
    /// Counts the pairs that were made, so that a late failure of one before this does no harm.
    generation: u64,
    /// When connecting failed last: who waited for that attempt does not begin another one.
    failed_at: Option<Instant>,
}

impl ServerConnections {
    fn new(client: Client) -> Self {
        let (current, lost, given_up) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { client, current, lost, given_up, moved: Notifier::new() }
    }

    async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let (pair, generation) = self.current_pair().await?;
        self.query_on(pair.calls, generation, cmd).await
    }

    async fn query_bodies<T: FromRedisValue>(&self, cmd: &Cmd, key: &str) -> RedisResult<T> {
        let (pair, generation) = self.current_pair().await?;
        let waiting = BodiesWait { given_up: &self.given_up, generation };
        let answer = tokio::select! {
            answer = self.query_on(pair.bodies, generation, cmd) => answer,
            silence = self.wait_for_silence(generation, key) => Err(silence),
        };
        waiting.ended();
        answer
    }

    /// Ends when these connections are lost: the server does not answer other calls in time.
    async fn wait_for_silence(&self, generation: u64, key: &str) -> RedisError {
        loop {
            sleep(PROBE_INTERVAL).await;
            match self.query::<Value>(&probe(key)).await {
                Err(error) if is_unreachable(&error) => return error,
                _ if self.lost.load(Ordering::Relaxed) >= generation => {
                    return io::Error::from(io::ErrorKind::NotConnected).into();
                }
                _ => {}
            }
        }
    }

    async fn query_on<T: FromRedisValue>(
        &self,
        mut connection: MultiplexedConnection,
        generation: u64,
        cmd: &Cmd,
    ) -> RedisResult<T> {
        let answer = cmd.query_async(&mut connection).await;
        match &answer {
            Err(error) if is_lost(error) => _ = self.forget(generation, Duration::ZERO).await,
            Err(error) if is_wrong_server(error) && self.forget(generation, REPLACEMENT_DELAY).await => {
                self.moved.notify();
            }
            _ => {}
        }
        answer
    }

    async fn current_pair(&self) -> RedisResult<(ConnectionPair<MultiplexedConnection>, u64)> {
        let asked_at = Instant::now();
        let mut current = self.current.lock().await;
        let is_given_up = current.generation <= self.given_up.load(Ordering::Relaxed);
        if let Some(pair) = current.pair.as_ref().filter(|_| !is_given_up) {
            return Ok((pair.clone(), current.generation));
        }
        if current.failed_at.is_some_and(|failed_at| failed_at >= asked_at) {
            return Err(io::Error::from(io::ErrorKind::NotConnected).into());
        }
        current.pair = None;
        match tokio::try_join!(self.connect(Some(REPLY_TIMEOUT)), self.connect(None)) {
            Ok((calls, bodies)) => {
                let pair = ConnectionPair { calls, bodies };
                current.pair = Some(pair.clone());
                current.made_at = Some(Instant::now());
                current.generation += 1;
                Ok((pair, current.generation))
            }
            Err(error) => {
                current.failed_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// `answer`: how long an answer may take, where the caller does not know better.
    async fn connect(&self, answer: Option<Duration>) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(answer)
            .set_connection_timeout(Some(CONNECT_TIMEOUT));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The next call connects again, if these connections are at least so old; returns whether it will.
    async fn forget(&self, generation: u64, age: Duration) -> bool {
        let mut current = self.current.lock().await;
        let is_old = current.made_at.is_none_or(|made_at| made_at.elapsed() >= age);
        let is_meant = current.generation == generation && is_old && current.pair.is_some();
        if is_meant {
            current.pair = None;
            self.lost.fetch_max(generation, Ordering::Relaxed);
        }
        is_meant
    }
}

/// A caller waits for bodies. Dropped before they came, the connections are given up: what is still under way would
/// keep the next ones waiting.
struct BodiesWait<'k> {
    given_up: &'k AtomicU64,
    generation: u64,
}

impl BodiesWait<'_> {
    fn ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for BodiesWait<'_> {
    fn drop(&mut self) {
        self.given_up.fetch_max(self.generation, Ordering::Relaxed);
    }
}

/// Whether the next call should not use this connection. Silence counts: what answers after it would be the answer
/// to another question.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

/// Whether the connection leads to a server that is not, or not yet, the one that takes writes. Where the URL names
/// something that moves, the name of a primary or an address, a new connection leads to the one that does: the old
/// primary may keep its clients for as long as it lives.
fn is_wrong_server(error: &RedisError) -> bool {
    let is_said = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "UNBLOCKED"));
    // Before Redis 7 an error inside a script is a part of another.
    is_said || error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

impl fmt::Debug for RedisConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "a server",
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => "a cluster",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(error: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).expect("an answer");
        value.extract_error().expect_err("an error")
    }

    #[test]
    fn server_that_takes_no_writes_is_the_wrong_one() {
        for error in [
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "LOADING Redis is loading the dataset in memory",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "ERR Error running script (call to f_1): @user_script:27: -READONLY You can't write against a read only \
             replica.",
        ] {
            assert!(is_wrong_server(&answered(error)), "{error}");
        }
        for error in ["OOM command not allowed", "WRONGKEY x is a string", "ERR wrong number of arguments"] {
            assert!(!is_wrong_server(&answered(error)), "{error}");
        }
    }
}
