//! Errors of the store, each with what the user should do next.

use posthaste::StoreError;
use redis::{ErrorKind, RedisError};

use crate::keys::InvalidOutboxName;

/// The store cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL does not name a Redis server.
    #[error(
        "the URL of the Redis server cannot be used: write it as redis://host:port/0, or rediss:// for TLS"
    )]
    Url(#[source] RedisError),

    /// The name is not allowed in a key.
    #[error(transparent)]
    Name(#[from] InvalidOutboxName),

    /// The server cannot be reached.
    #[error(
        "the Redis server {server} cannot be reached: check that it runs and that host and port are right"
    )]
    Unreachable {
        /// The server's address.
        server: String,
        /// The driver's error.
        source: RedisError,
    },

    /// The server refused the user or the password.
    #[error("the Redis server {server} refused the user or the password: correct them in the URL")]
    Refused {
        /// The server's address.
        server: String,
        /// The server's error.
        source: RedisError,
    },

    /// The server is too old.
    #[error("the Redis server has version {found}, Posthaste needs at least {needed}: upgrade it")]
    OldServer {
        /// Its version.
        found: String,
        /// The first version that is supported.
        needed: &'static str,
    },

    /// The server is read-only.
    #[error(
        "the Redis server {server} is read-only, as a replica is: connect to its primary, or open the store \
         with `read_only()`"
    )]
    ReadOnlyServer {
        /// The server's address.
        server: String,
    },

    /// A node of a cluster was opened as a single server.
    #[error(
        "the Redis server {server} is a node of a cluster: name its nodes with `RedisStore::cluster`, or on the \
         command line as redis+cluster://host:port,host:port"
    )]
    ClusterNode {
        /// The server's address.
        server: String,
    },

    /// A key of the outbox has another type.
    #[error(
        "the key {key} holds a {found}, Posthaste needs a {needed} there: rename or delete it, or choose another \
         name for the outbox"
    )]
    ForeignKey {
        /// The key.
        key: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        needed: &'static str,
    },

    /// The outbox has a different number of shards.
    #[error(
        "the outbox {outbox:?} has {found} shards, but was opened with {asked}: use the number that it has; to \
         change it, drain the outbox, delete its keys and open it again"
    )]
    Shards {
        /// The outbox's name.
        outbox: String,
        /// Its number of shards.
        found: u16,
        /// The requested number.
        asked: u16,
    },

    /// The keys have the layout of a newer release.
    #[error(
        "the outbox {outbox:?} has layout {found}, this program knows only {known}: use a newer release of Posthaste"
    )]
    NewerLayout {
        /// The outbox's name.
        outbox: String,
        /// Its layout.
        found: u32,
        /// The newest layout that this program knows.
        known: u32,
    },

    /// Any other error of the server.
    #[error("the Redis server failed: {}", advice(.0))]
    Server(#[from] RedisError),
}

/// Classifies an error of the first calls: unreachable, refused, or other.
pub(crate) fn open_error(server: &str, source: RedisError) -> OpenError {
    let server = server.to_owned();
    let is_refused = matches!(source.code(), Some("NOAUTH" | "WRONGPASS"))
        || source.kind() == ErrorKind::AuthenticationFailed;
    if is_refused {
        return OpenError::Refused { server, source };
    }
    match is_unreachable(&source) {
        true => OpenError::Unreachable { server, source },
        false => OpenError::Server(source),
    }
}

/// A server error, displayed with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{}", advice(.0))]
struct RedisFailure(#[source] RedisError);

/// Wraps the error of a failed call.
pub(crate) fn failed(error: RedisError) -> StoreError {
    StoreError::backend("Redis", RedisFailure(error))
}

/// Whether the server did not reply at all. A server that is reachable returns an error of its own.
pub(crate) fn is_unreachable(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound)
}

/// Whether a failed call of the store got no reply.
pub(crate) fn is_call_without_reply(error: &StoreError) -> bool {
    match error {
        StoreError::Backend { source, .. } => {
            source.downcast_ref::<RedisFailure>().is_some_and(|failure| is_unreachable(&failure.0))
        }
        _ => false,
    }
}

/// Error for a reply that none of our scripts returns.
pub(crate) fn unexpected(what: &'static str) -> StoreError {
    StoreError::backend(
        "Redis",
        format!(
            "unexpected reply to {what}: check whether a proxy between Posthaste and Redis changes replies"
        ),
    )
}

/// What to do about an error, as far as its code shows.
fn advice(error: &RedisError) -> String {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some("WRONGKEY") => {
            format!("a key of the outbox holds something else ({detail}): rename or delete it")
        }
        Some("WRONGTYPE") => format!("a key has another type than the command needs ({detail})"),
        Some("OOM") => {
            "the server is out of memory: raise maxmemory, purge DONE events sooner, or delete events on \
             delivery"
                .to_owned()
        }
        Some("READONLY") => "the server is read-only, as a replica is: connect to its primary".to_owned(),
        Some("NOAUTH" | "WRONGPASS") => "the server refused the user or the password".to_owned(),
        Some("NOPERM") => {
            format!("the user lacks a permission ({detail}): docs/redis.md lists the permissions it needs")
        }
        Some("BUSY") => {
            "another script has been running for too long: wait for it, or end it with SCRIPT KILL".to_owned()
        }
        Some("LOADING") => "the server is loading its data: try again when it has finished".to_owned(),
        Some("MISCONF") => {
            "the server cannot write its data to disk and refuses changes: see its log".to_owned()
        }
        Some("CLUSTERDOWN" | "MASTERDOWN") => "a part of the cluster is down: see CLUSTER INFO".to_owned(),
        Some("CROSSSLOT") => {
            "the keys of this call are in different slots: let your keys contain `store.tag(aggregate)`"
                .to_owned()
        }
        _ if error.is_timeout() => {
            "the server did not reply in time: check whether it is overloaded or unreachable".to_owned()
        }
        _ if error.kind() == ErrorKind::Io => "the connection failed: check that the server runs".to_owned(),
        _ => error.to_string(),
    }
}
