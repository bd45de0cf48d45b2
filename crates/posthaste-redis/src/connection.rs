//! The way to the server: one connection for many calls, none of which waits for ever.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use posthaste::store::Wake;
use redis::aio::MultiplexedConnection;
#[cfg(feature = "cluster")]
use redis::cluster_async::ClusterConnection;
#[cfg(feature = "cluster")]
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a server may take to answer a call, and to accept a connection.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(2);

/// How long a connection is kept to a server that refuses to write: it may do so for hours.
const REPLACE_AFTER: Duration = Duration::from_secs(1);

/// The name of a server that is the only one.
pub(crate) const ONE_SERVER: &str = "the server";

/// Calls share it; it connects anew when the server went away, or went silent.
#[derive(Clone)]
pub(crate) enum Link {
    Server(Arc<Server>),
    #[cfg(feature = "cluster")]
    Cluster(ClusterConnection),
}

/// A connection to one server. The driver's own manager keeps a connection that went silent, so that
/// every call on it fails until the operating system gives up: this one does not.
pub(crate) struct Server {
    client: Client,
    current: Mutex<Current>,
    /// Rung when a connection was given up because it led to the wrong server.
    moved: Wake,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    made_at: Option<Instant>,
    /// Which connection it is, so that a late failure of the one before it does no harm.
    number: u64,
    /// When connecting failed last: who waited for that attempt does not begin another one.
    failed_at: Option<Instant>,
}

impl Link {
    pub(crate) async fn to_server(client: Client) -> RedisResult<Self> {
        let server = Server { client, current: Mutex::default(), moved: Wake::new() };
        server.connection().await?;
        Ok(Self::Server(Arc::new(server)))
    }

    #[cfg(feature = "cluster")]
    pub(crate) async fn to_cluster(client: redis::cluster::ClusterClientBuilder) -> RedisResult<Self> {
        let client = client
            .response_timeout(ANSWER)
            .connection_timeout(CONNECT)
            // Who calls repeats, so that nobody waits for long.
            .overall_response_timeout(Some(2 * ANSWER))
            .build()?;
        Ok(Self::Cluster(client.get_async_connection().await?))
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        match self {
            Self::Server(server) => server.query(cmd).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(connection) => cmd.query_async(&mut connection.clone()).await,
        }
    }

    /// Asks the server, or every primary of a cluster; each answer comes with the name of who gave it.
    pub(crate) async fn query_each<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<Vec<(String, T)>> {
        match self {
            Self::Server(server) => Ok(vec![(ONE_SERVER.to_owned(), server.query(cmd).await?)]),
            #[cfg(feature = "cluster")]
            Self::Cluster(connection) => {
                let primaries = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = connection.clone().route_command(cmd.clone(), primaries).await?;
                let answers: Vec<(String, T)> = redis::from_redis_value(answers)?;
                Ok(answers.into_iter().map(|(node, answer)| (format!("the node {node}"), answer)).collect())
            }
        }
    }

    /// Waits until a connection has turned out to lead to the wrong server: others may do so as well.
    pub(crate) async fn moved(&self) {
        match self {
            Self::Server(server) => server.moved.rung().await,
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

impl Server {
    async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let (mut connection, number) = self.connection().await?;
        let answer = cmd.query_async(&mut connection).await;
        match &answer {
            Err(error) if is_lost(error) => _ = self.forget(number, Duration::ZERO).await,
            Err(error) if is_misled(error) && self.forget(number, REPLACE_AFTER).await => self.moved.ring(),
            _ => {}
        }
        answer
    }

    async fn connection(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        let asked_at = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok((connection.clone(), current.number));
        }
        if current.failed_at.is_some_and(|failed_at| failed_at >= asked_at) {
            return Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::NotConnected)));
        }
        match self.connect().await {
            Ok(connection) => {
                current.connection = Some(connection.clone());
                current.made_at = Some(Instant::now());
                current.number += 1;
                Ok((connection, current.number))
            }
            Err(error) => {
                current.failed_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(ANSWER))
            .set_connection_timeout(Some(CONNECT));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The next call connects anew, if this connection is at least so old; answers whether it will.
    async fn forget(&self, number: u64, age: Duration) -> bool {
        let mut current = self.current.lock().await;
        let is_old = current.made_at.is_none_or(|made_at| made_at.elapsed() >= age);
        let is_meant = current.number == number && is_old && current.connection.is_some();
        if is_meant {
            current.connection = None;
        }
        is_meant
    }
}

/// Whether the next call should not use this connection. Silence counts: what answers after it would be
/// the answer to somebody else's question.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

/// Whether the connection leads to a server that is not, or not yet, the one that takes writes. Where the URL names
/// something that moves, the name of a primary or an address, a new connection leads to the one that does: the old
/// primary may keep its clients for as long as it lives.
fn is_misled(error: &RedisError) -> bool {
    let is_said = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "UNBLOCKED"));
    // Before Redis 7 an error inside a script is a part of another.
    is_said || error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

impl fmt::Debug for Link {
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
            assert!(is_misled(&answered(error)), "{error}");
        }
        for error in ["OOM command not allowed", "WRONGKEY x is a string", "ERR wrong number of arguments"] {
            assert!(!is_misled(&answered(error)), "{error}");
        }
    }
}
