//! The Redis store of the Posthaste outbox, for services whose state is in Redis: a mint and its event
//! are stored in one atomic step.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_redis::{RedisStore, RedisWriter};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://localhost/")?;
//! let mut connection = client.get_multiplexed_async_connection().await?;
//!
//! let store = RedisStore::connect("redis://localhost/").await?;
//! let routes = Routes::new().handle("TicketMinted", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = RedisWriter::new(&store, &outbox);
//!
//! let mut tx = writer.begin();
//! tx.set(format!("{}:ticket:17", store.tag("17")), "minted");
//! tx.write(Event::builder("TicketMinted").aggregate("Ticket", "17").json_text("{}").build()?)?;
//! tx.commit(&mut connection).await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/redis.md` says what each key holds, and what each setting of the server really promises.
//!
//! # Features
//!
//! - `cluster`: Redis Cluster.
//! - `tls`: connections with TLS.
//! - `expiry`: tickets that expire, in the module `expiry`.

mod admin;
mod backlog;
mod builder;
mod claim;
mod connection;
mod diagnose;
mod error;
mod event_body;
#[cfg(feature = "expiry")]
pub mod expiry;
mod field_escape;
mod filter;
mod keys;
mod metrics;
mod page;
mod repair;
mod row_state;
#[cfg(test)]
mod script_fault_tests;
mod scripts;
mod server_state_cache;
mod shard_backoff;
mod shard_calls;
mod stats;
mod store;
mod tx;
mod wake_up;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use posthaste::StoreError;
use posthaste::store::Notifier;
use posthaste::writer::NewRow;
use tokio_util::sync::CancellationToken;

pub use builder::RedisStoreBuilder;
pub use error::OpenError;
pub use keys::{InvalidOutboxName, OutboxName};
pub use repair::Repaired;
pub use tx::{RedisCommitError, RedisTx, Replies};
pub use writer::{ENQUEUE_LUA, RedisWriter, ScriptEvent};

use connection::RedisConnections;
use keys::Keys;
use scripts::Scripts;

/// An outbox in Redis, from Redis 6.2 on. Cheap to clone.
///
/// It has connections of its own, and any number of processes may share an outbox.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: RedisConnections,
    keys: Keys,
    scripts: Scripts,
    metrics: metrics::Metrics,
    server_state: server_state_cache::ServerStateCache,
    backoffs: shard_backoff::ShardBackoffs,
    /// Nothing may be written: a replica, for those who only look.
    read_only: bool,
    /// How often an engine's process looks for something half done.
    repair_every: Duration,
    /// Which shard is asked first next time.
    turn: AtomicUsize,
    /// The wake-up: notified when there may be something to claim; made when an engine first asks.
    wake: OnceLock<Notifier>,
    /// Where to listen for other processes: any of these servers.
    listen: Vec<redis::ConnectionInfo>,
    /// Notified when other processes are to be woken; made with the first writer.
    remote_notifier: OnceLock<Notifier>,
    /// Cancelled when the store ends, for the task that listens.
    stop: CancellationToken,
    is_closed: AtomicBool,
}

impl RedisStore {
    /// Opens the outbox `outbox` on the server at this URL: `redis://user:password@host:port/0`, or
    /// `rediss://` for TLS (feature `tls`). Keys that hold something else are an error that names them.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::builder(url)?.connect().await
    }

    /// The same with other settings: a name, several shards, a certificate.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, OpenError> {
        RedisStoreBuilder::server(url)
    }

    /// An outbox on a Redis Cluster, of which some nodes are named. Give it several
    /// [`shards`](RedisStoreBuilder::shards), or one node has all the work.
    #[cfg(feature = "cluster")]
    pub fn cluster<'u>(nodes: impl IntoIterator<Item = &'u str>) -> Result<RedisStoreBuilder, OpenError> {
        RedisStoreBuilder::cluster(nodes)
    }

    /// What the service's own keys of this aggregate have to contain, such as `{outbox:0}`: then a
    /// cluster keeps them where the aggregate's events are, and one transaction can change both.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), posthaste_redis::OpenError> {
    /// let store = posthaste_redis::RedisStore::connect("redis://localhost/").await?;
    /// let key = format!("{}:ticket:17", store.tag("17"));
    /// assert_eq!(key, "{outbox:0}:ticket:17");
    /// # Ok(())
    /// # }
    /// ```
    pub fn tag(&self, aggregate_id: &str) -> &str {
        self.keys().of_aggregate(aggregate_id).tag()
    }

    /// The enqueue of a transaction alone, for the conformance suite: no hooks, no limits, no receipt.
    /// Services use a [`RedisWriter`].
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut impl redis::aio::ConnectionLike,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        tx::insert_rows(self, connection, rows).await
    }

    /// Ends what the store does in the background. What was committed a moment ago wakes other processes first:
    /// call it before a process that only writes ends.
    pub async fn close(&self) {
        if self.0.remote_notifier.get().is_some() {
            wake_up::wake_others_once(self).await;
        }
        self.0.end_tasks();
    }

    fn keys(&self) -> &Keys {
        &self.0.keys
    }

    fn connections(&self) -> &RedisConnections {
        &self.0.connections
    }

    fn scripts(&self) -> &Scripts {
        &self.0.scripts
    }

    fn next_turn(&self) -> usize {
        self.0.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts to listen, and to repair, when an engine asks for the first time.
    fn listen(&self) -> Notifier {
        let wake = self.0.wake.get_or_init(|| {
            let wake = Notifier::new();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let listener = wake_up::Listener {
                    servers: self.0.listen.clone(),
                    channel: self.keys().channel(),
                    connections: self.connections().clone(),
                    wake: wake.clone(),
                };
                runtime.spawn(listener.listen_until(self.0.stop.clone()));
                if !self.0.repair_every.is_zero() {
                    runtime.spawn(repair::repair_while_used(Arc::downgrade(&self.0), self.0.repair_every));
                }
            }
            wake
        });
        wake.clone()
    }

    /// The notifier whose task wakes other processes, started when it is needed for the first time.
    fn remote_notifier(&self) -> Notifier {
        let notifier = self.0.remote_notifier.get_or_init(|| {
            let notifier = Notifier::new();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(wake_up::wake_others(Arc::downgrade(&self.0), notifier.clone()));
            }
            notifier
        });
        notifier.clone()
    }

    /// Rows became due: this process and the others may have a look.
    fn notify_due(&self) {
        self.wake_here();
        self.remote_notifier().notify();
    }

    /// There may be something to claim that only this process could not see.
    fn wake_here(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
    }
}

impl Inner {
    /// A store that writes and does not repair.
    fn new(connections: RedisConnections, keys: Keys, listen: Vec<redis::ConnectionInfo>) -> Self {
        Self {
            connections,
            metrics: metrics::Metrics::new(keys.name().to_string()),
            server_state: server_state_cache::ServerStateCache::default(),
            backoffs: shard_backoff::ShardBackoffs::of(keys.count()),
            keys,
            scripts: Scripts::after(""),
            read_only: false,
            repair_every: Duration::ZERO,
            turn: AtomicUsize::new(0),
            wake: OnceLock::new(),
            listen,
            remote_notifier: OnceLock::new(),
            stop: CancellationToken::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Lets the tasks behind the notifiers see that the store is gone.
    fn end_tasks(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.stop.cancel();
        if let Some(notifier) = self.remote_notifier.get() {
            notifier.notify();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

/// The page of this repository about this store, so that its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Page;
