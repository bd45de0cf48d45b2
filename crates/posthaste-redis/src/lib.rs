//! The Redis store of the Posthaste outbox, for services that keep their state in Redis: a change and its event are
//! stored in one atomic step.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_redis::{RedisStore, RedisWriter};
//!
//! # async fn run() -> Result<(), posthaste::BoxError> {
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
//! `docs/redis.md` describes the keys, and what the server's settings mean for durability.
//!
//! # Features
//!
//! - `cluster`: Redis Cluster.
//! - `tls`: connections with TLS.
//! - `tickets`: tickets that expire or are revoked, in the module `tickets`.

mod admin;
mod backlog;
mod builder;
mod claim;
mod clock_and_pauses;
mod connection;
mod diagnose;
mod error;
mod event_body;
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
mod shard_backoff;
mod shard_calls;
mod stats;
mod store;
#[cfg(feature = "tickets")]
pub mod tickets;
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
/// It has its own connections. Any number of processes can use the same outbox.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: RedisConnections,
    keys: Keys,
    scripts: Scripts,
    metrics: metrics::Metrics,
    /// Paused and parked routes of each shard, as of the last claim that read them.
    server_state: clock_and_pauses::ServerStateCache,
    /// Shards that did not reply and are skipped for a while.
    backoffs: shard_backoff::ShardBackoffs,
    /// The server may be a replica; see [`RedisStoreBuilder::read_only`].
    read_only: bool,
    /// Interval of the background repair; zero disables it.
    repair_every: Duration,
    /// Counts claims and other rounds over the shards. The shard that comes first rotates with it.
    turn: AtomicUsize,
    /// The engine's wake-up: notified when there may be something to claim. Made when the first engine requests it.
    wake: OnceLock<Notifier>,
    /// Servers to subscribe at for wake-ups by other processes; any of them will do.
    listen: Vec<redis::ConnectionInfo>,
    /// Notified when other processes should be woken. Made with the first writer.
    remote_notifier: OnceLock<Notifier>,
    /// Cancelled when the store is closed or dropped. Ends the task that listens for wake-ups.
    stop: CancellationToken,
    /// Set when the store is closed or dropped. The tasks that wake other processes and that repair check it.
    is_closed: AtomicBool,
}

impl RedisStore {
    /// Opens the outbox `outbox` on the server at this URL: `redis://user:password@host:port/0`, or `rediss://` for TLS
    /// (feature `tls`).
    ///
    /// # Errors
    ///
    /// As [`RedisStoreBuilder::connect`], and if the URL cannot be parsed.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::builder(url)?.connect().await
    }

    /// Builder with further settings: name, number of shards, certificate. Fails if the URL cannot be parsed.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, OpenError> {
        RedisStoreBuilder::server(url)
    }

    /// Builder for an outbox on a Redis Cluster. `nodes`: the URLs of some of its nodes. Set several
    /// [`shards`](RedisStoreBuilder::shards), otherwise one node has all the load.
    #[cfg(feature = "cluster")]
    pub fn cluster<'u>(nodes: impl IntoIterator<Item = &'u str>) -> Result<RedisStoreBuilder, OpenError> {
        RedisStoreBuilder::cluster(nodes)
    }

    /// The hash tag of this aggregate's shard, such as `{outbox:0}`. A key of the service that contains it is on the
    /// same node of a cluster as the aggregate's events, so one transaction can change both.
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

    /// Stores rows like a transaction does, without hooks, limits and receipt. For the conformance suite; services use
    /// a [`RedisWriter`].
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut impl redis::aio::ConnectionLike,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        tx::insert_rows(self, connection, rows).await
    }

    /// Ends the background tasks of the store. A last wake-up is sent to other processes first, so a process that only
    /// writes events should call this before it ends.
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

    /// Starts listening for wake-ups, and the repair, when the first engine requests its wake-up.
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

    /// The notifier of the task that wakes other processes. Starts that task at its first use.
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

    /// Wakes this process and other processes, because rows became due.
    fn notify_due(&self) {
        self.wake_here();
        self.remote_notifier().notify();
    }

    /// Wakes the engine of this process only.
    fn wake_here(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
    }
}

impl Inner {
    /// A writable store without background repair.
    fn new(connections: RedisConnections, keys: Keys, listen: Vec<redis::ConnectionInfo>) -> Self {
        Self {
            connections,
            metrics: metrics::Metrics::new(keys.name().to_string()),
            server_state: clock_and_pauses::ServerStateCache::default(),
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

    /// Ends the background tasks. The notification makes the remote notifier's task check `is_closed`.
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

/// Compiles the program on the page about this store.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Page;
