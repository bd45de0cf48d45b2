//! Connections to the server or cluster: one for calls and one for replies with bodies, both with bounded waits.

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

/// Maximum wait for the reply to a call, and for a connection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of the liveness check while a reply with bodies is received.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum age at which a connection to a read-only server is replaced. Bounds reconnects, because the server may stay
/// read-only for hours.
const REPLACEMENT_DELAY: Duration = Duration::from_secs(1);

/// How findings refer to the server if there is only one.
pub(crate) const SINGLE_SERVER_NAME: &str = "the server";

/// The connections of a store, shared by all its calls. Replies with bodies have a connection of their own: on a slow
/// network they take long, and other calls would wait behind them.
#[derive(Clone)]
pub(crate) enum RedisConnections {
    Server(Arc<ServerConnections>),
    #[cfg(feature = "cluster")]
    Cluster(ConnectionPair<ClusterConnection>),
}

/// One connection for calls, and one for replies with bodies.
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
        // Bounds the driver's own retries. The engine repeats a call that fails.
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

    /// Sends a call whose reply contains bodies. There is no time limit, because the transfer depends on the network:
    /// the caller bounds it by dropping the future. The call fails if the server that has `key` stops replying to other
    /// calls.
    pub(crate) async fn query_bodies<T: FromRedisValue>(&self, cmd: &Cmd, key: &str) -> RedisResult<T> {
        match self {
            Self::Server(server) => server.query_bodies(cmd, key).await,
            // A reply that is still on its way when the caller gives up delays only other calls to the same node.
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let mut bodies = cluster.bodies.clone();
                tokio::select! {
                    reply = cmd.query_async(&mut bodies) => reply,
                    silence = self.wait_for_silence(key) => Err(silence),
                }
            }
        }
    }

    /// Returns when the node that has this key does not reply to other calls in time.
    #[cfg(feature = "cluster")]
    async fn wait_for_silence(&self, key: &str) -> RedisError {
        loop {
            sleep(PROBE_INTERVAL).await;
            let reply = timeout(REPLY_TIMEOUT, self.query::<Value>(&probe(key))).await;
            match reply.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
                Err(error) if is_unreachable(&error) => return error,
                _ => {}
            }
        }
    }

    /// Sends a command to the server, or to every primary of a cluster. Each reply comes with the name of its server.
    pub(crate) async fn query_each<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<Vec<(String, T)>> {
        match self {
            Self::Server(server) => Ok(vec![(SINGLE_SERVER_NAME.to_owned(), server.query(cmd).await?)]),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let primaries = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let replies = cluster.calls.clone().route_command(cmd.clone(), primaries).await?;
                let replies: Vec<(String, T)> = redis::from_redis_value(replies)?;
                Ok(replies.into_iter().map(|(node, reply)| (format!("the node {node}"), reply)).collect())
            }
        }
    }

    /// Waits until a connection has led to the wrong server. Other connections may lead there as well.
    pub(crate) async fn moved(&self) {
        match self {
            Self::Server(server) => server.moved.notified().await,
            // The driver follows the roles of the nodes by itself.
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => std::future::pending().await,
        }
    }

    /// Whether a transaction is limited to keys of one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) => false,
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => true,
        }
    }
}

/// A cheap call. Any reply, even an error, shows that the server is alive.
fn probe(key: &str) -> Cmd {
    let mut probe = redis::cmd("EXISTS");
    probe.arg(key);
    probe
}

/// The connections to one server. Used instead of the driver's connection manager, which keeps a connection that has
/// gone silent, so that every call fails until the operating system closes it.
pub(crate) struct ServerConnections {
    client: Client,
    /// Held while connecting, so that concurrent callers share one attempt.
    current: Mutex<CurrentPair>,
    /// Generation of the newest pair that was lost. Calls that wait for bodies on that pair or an older one end when
    /// they read this.
    lost: AtomicU64,
    /// Generation of the newest pair on which a caller stopped waiting for bodies. The next call replaces that pair.
    given_up: AtomicU64,
    /// Notified when a pair was dropped because it led to the wrong server.
    moved: Notifier,
}

#[derive(Default)]
struct CurrentPair {
    /// Both connections are made together, so that they lead to the same server if the address moves. Otherwise an
    /// event claimed on one server would be settled on another.
    pair: Option<ConnectionPair<MultiplexedConnection>>,
    /// When the current pair was made.
    made_at: Option<Instant>,
    /// Number of pairs made so far. A late error of an older pair has a lower generation and is ignored.
    generation: u64,
    /// When connecting last failed. A caller that waited for that attempt gets an error without a second attempt.
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
        let reply = tokio::select! {
            reply = self.query_on(pair.bodies, generation, cmd) => reply,
            silence = self.wait_for_silence(generation, key) => Err(silence),
        };
        waiting.ended();
        reply
    }

    /// Returns when the connections are lost, because the server does not reply to other calls in time.
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
        let reply = cmd.query_async(&mut connection).await;
        match &reply {
            Err(error) if is_lost(error) => _ = self.forget(generation, Duration::ZERO).await,
            Err(error) if is_wrong_server(error) && self.forget(generation, REPLACEMENT_DELAY).await => {
                self.moved.notify();
            }
            _ => {}
        }
        reply
    }

    async fn current_pair(&self) -> RedisResult<(ConnectionPair<MultiplexedConnection>, u64)> {
        let requested_at = Instant::now();
        let mut current = self.current.lock().await;
        let is_given_up = current.generation <= self.given_up.load(Ordering::Relaxed);
        if let Some(pair) = current.pair.as_ref().filter(|_| !is_given_up) {
            return Ok((pair.clone(), current.generation));
        }
        if current.failed_at.is_some_and(|failed_at| failed_at >= requested_at) {
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

    /// `reply_timeout`: maximum wait for a reply; `None` leaves it to the caller.
    async fn connect(&self, reply_timeout: Option<Duration>) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(reply_timeout)
            .set_connection_timeout(Some(CONNECT_TIMEOUT));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Drops the pair of this generation if it is at least `age` old, so that the next call reconnects. Returns whether
    /// it was dropped.
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

/// Guard while a caller waits for bodies. If it is dropped before `ended`, the pair is given up: the rest of the reply
/// would delay the next calls.
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

/// Whether the next call must not use this connection. That includes a timeout: a late reply could be taken for the
/// reply to a later call.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

/// Whether the connection leads to a server that does not, or not yet, accept writes. If the URL names something that
/// moves (a DNS name, a virtual address), a new connection may lead to the new primary, while the old one keeps its
/// clients as long as it runs.
fn is_wrong_server(error: &RedisError) -> bool {
    let is_said = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "UNBLOCKED"));
    // Before Redis 7 the error of a command inside a script is only in the text of the script's error.
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

    fn error_reply(error: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).expect("a valid reply");
        value.extract_error().expect_err("an error")
    }

    #[test]
    fn server_that_refuses_writes_is_the_wrong_server() {
        for error in [
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "LOADING Redis is loading the dataset in memory",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "ERR Error running script (call to f_1): @user_script:27: -READONLY You can't write against a read only \
             replica.",
        ] {
            assert!(is_wrong_server(&error_reply(error)), "{error}");
        }
        for error in ["OOM command not allowed", "WRONGKEY x is a string", "ERR wrong number of arguments"] {
            assert!(!is_wrong_server(&error_reply(error)), "{error}");
        }
    }
}
