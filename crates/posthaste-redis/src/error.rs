//! What can go wrong with a Redis server, and what to do about it.

use posthaste::StoreError;
use redis::{ErrorKind, RedisError};

use crate::keys::InvalidOutboxName;

/// A store cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is no URL of a Redis server.
    #[error(
        "the URL of the Redis server cannot be used: write it as redis://host:port/0, or rediss:// for TLS"
    )]
    Url(#[source] RedisError),

    /// The name cannot stand in a key.
    #[error(transparent)]
    Name(#[from] InvalidOutboxName),

    /// The server did not answer.
    #[error(
        "the Redis server {server} cannot be reached: see that it runs, and that host and port are right"
    )]
    Unreachable {
        /// Which server.
        server: String,
        /// What the driver said.
        source: RedisError,
    },

    /// The server does not let this user in.
    #[error("the Redis server {server} refused the user or the password: correct them in the URL")]
    Refused {
        /// Which server.
        server: String,
        /// What the server said.
        source: RedisError,
    },

    /// The server is too old.
    #[error("the Redis server has version {found}, Posthaste needs at least {needed}: upgrade it")]
    OldServer {
        /// Its version.
        found: String,
        /// The oldest that is good enough.
        needed: &'static str,
    },

    /// The server only reads.
    #[error(
        "the Redis server {server} only reads, as a replica does: connect to its primary, or open the store \
         with `read_only()`"
    )]
    ReadOnlyServer {
        /// Which server.
        server: String,
    },

    /// A node of a cluster was opened as a server of its own.
    #[error(
        "the Redis server {server} is a node of a cluster: name its nodes with `RedisStore::cluster`, or on the \
         command line as redis+cluster://host:port,host:port"
    )]
    ClusterNode {
        /// Which server.
        server: String,
    },

    /// A key of the outbox holds something else.
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

    /// The outbox has another number of shards.
    #[error(
        "the outbox {outbox:?} has {found} shards, and was opened with {asked}: use the number that it has; to \
         change it, drain the outbox, delete its keys and open it again"
    )]
    Shards {
        /// Its name.
        outbox: String,
        /// How many it has.
        found: u16,
        /// How many were asked for.
        asked: u16,
    },

    /// The layout of the keys is that of a newer release.
    #[error(
        "the outbox {outbox:?} has layout {found}, this program knows only {known}: use a newer release of Posthaste"
    )]
    NewerLayout {
        /// Its name.
        outbox: String,
        /// Its layout.
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },

    /// Anything else that the server says.
    #[error("the Redis server failed: {}", advice(.0))]
    Server(#[from] RedisError),
}

/// The error of the first calls: the server cannot be reached, or does not let us in.
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

/// An error of the server with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{}", advice(.0))]
struct RedisFailure(#[source] RedisError);

/// A call of the store failed.
pub(crate) fn failed(error: RedisError) -> StoreError {
    StoreError::backend("Redis", RedisFailure(error))
}

/// Whether no server answered: one that is reachable says what is wrong.
pub(crate) fn is_unreachable(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound)
}

/// The same of a call of the store that failed.
pub(crate) fn is_call_unanswered(error: &StoreError) -> bool {
    match error {
        StoreError::Backend { source, .. } => {
            source.downcast_ref::<RedisFailure>().is_some_and(|failure| is_unreachable(&failure.0))
        }
        _ => false,
    }
}

/// An answer of the server that no script of ours gives.
pub(crate) fn unexpected(what: &'static str) -> StoreError {
    StoreError::backend(
        "Redis",
        format!("unexpected answer to {what}: is something between us and the server?"),
    )
}

/// What to do about it, as far as the code tells.
fn advice(error: &RedisError) -> String {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some("WRONGKEY") => {
            format!("a key of the outbox holds something else ({detail}): rename or delete it")
        }
        Some("WRONGTYPE") => format!("a key holds something else than the command needs ({detail})"),
        Some("OOM") => {
            "the server is out of memory: raise maxmemory, purge DONE events sooner or delete them \
                        when they are delivered"
                .to_owned()
        }
        Some("READONLY") => "the server only reads, as a replica does: connect to its primary".to_owned(),
        Some("NOAUTH" | "WRONGPASS") => "the server refused the user or the password".to_owned(),
        Some("NOPERM") => {
            format!("the user may not do this ({detail}): docs/redis.md has the rights it needs")
        }
        Some("BUSY") => {
            "another script runs for too long: wait for it, or end it with SCRIPT KILL".to_owned()
        }
        Some("LOADING") => "the server is loading its data: it will answer when that is done".to_owned(),
        Some("MISCONF") => {
            "the server cannot write its data to the disk, and refuses changes: see its log".to_owned()
        }
        Some("CLUSTERDOWN" | "MASTERDOWN") => "a part of the cluster is down: see CLUSTER INFO".to_owned(),
        Some("CROSSSLOT") => {
            "the keys of this call are in different slots: let your keys contain `store.tag(aggregate)`"
                .to_owned()
        }
        _ if error.is_timeout() => {
            "the server did not answer in time: is it overloaded or unreachable?".to_owned()
        }
        _ if error.kind() == ErrorKind::Io => "the server cannot be reached, or went away".to_owned(),
        _ => error.to_string(),
    }
}
