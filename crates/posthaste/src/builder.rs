//! Builder of an [`Outbox`]. A setting that makes no sense in a mode is refused by the compiler.

mod mode;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use self::mode::{
    Concurrent, Configured, Delivers, MayDeliver, OnlyWrites, Strict, TakesSeveral, WriterOnly,
};
use crate::config::{Config, ConfigError, Mode, PurgeConfig, QueueConfig, RetryPolicy};
use crate::interceptor::Interceptor;
use crate::outbox::{Outbox, StartError};
use crate::route::Routes;
use crate::store::Store;
use crate::writer_hook::WriterHook;

impl Outbox {
    /// An engine on this store, beside any number of others in other processes: hot path and poller.
    pub fn builder<S>(store: impl Store, routes: Routes<S>) -> Builder<Concurrent> {
        Builder::new(Config::default(), Arc::new(store), routes.with_state(()))
    }

    /// An outbox of any mode, as a configuration says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use posthaste::{Config, Delivery, MemoryStore, Outbox, Routes};
    ///
    /// let mut config = Config::default();
    /// config.workers = Some(8);
    /// let routes = Routes::new().handle("UserCreated", async |_: Delivery| ());
    /// let outbox = Outbox::from_config(MemoryStore::new(), config, routes).start()?;
    /// # outbox.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn from_config<S>(store: impl Store, config: Config, routes: Routes<S>) -> Builder<Configured> {
        Builder::new(config, Arc::new(store), routes.with_state(()))
    }
}

/// Builds an [`Outbox`]. A setting that makes no sense in the mode does not exist here.
#[must_use = "an outbox exists only after `build` or `start`"]
pub struct Builder<M = Concurrent> {
    config: Config,
    store: Arc<dyn Store>,
    routes: Routes,
    hooks: Vec<Arc<dyn WriterHook>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    mode: PhantomData<M>,
}

impl<M> Builder<M> {
    fn new(config: Config, store: Arc<dyn Store>, routes: Routes) -> Self {
        Self { config, store, routes, hooks: Vec::new(), interceptors: Vec::new(), mode: PhantomData }
    }

    /// Names this outbox in metrics and logs. Default: `outbox`.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.change(|config| config.name = name)
    }

    /// Adds a hook around every write.
    pub fn hook(mut self, hook: impl WriterHook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// The largest payload that may be written, in bytes. Default: 1 MiB.
    pub fn payload_bytes(self, bytes: usize) -> Self {
        self.change(|config| config.payload_bytes = bytes)
    }

    /// The outbox, not started; reports every problem at once.
    pub fn build(self) -> Result<Outbox, ConfigError> {
        Outbox::new(self.store, &self.config, self.routes, self.hooks, self.interceptors)
    }

    /// The outbox, started.
    pub fn start(self) -> Result<Outbox, StartError> {
        let outbox = self.build()?;
        outbox.start()?;
        Ok(outbox)
    }

    fn in_mode<N>(self) -> Builder<N> {
        let Self { config, store, routes, hooks, interceptors, mode: _ } = self;
        Builder { config, store, routes, hooks, interceptors, mode: PhantomData }
    }

    fn change(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }
}

/// Settings of every mode that may deliver.
impl<M> Builder<M> {
    /// Adds an interceptor around every dispatch, inside those that were added before.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self
    where
        M: MayDeliver,
    {
        self.interceptors.push(Arc::new(interceptor));
        self
    }
}

/// Settings of every mode that delivers.
impl<M> Builder<M> {
    /// The pause between two polls, unless a hint comes first. Default: 5 s.
    pub fn poll_interval(self, interval: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.poller.interval = interval)
    }

    /// The most events per claim. Default: 50.
    pub fn poll_batch(self, events: usize) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.poller.batch = events)
    }

    /// Leaves out events inserted less than this ago. Default: zero.
    pub fn skip_recent(self, age: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.poller.skip_recent = age)
    }

    /// How long a handler may take. Default: 60 s.
    pub fn handler_timeout(self, timeout: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.handler_timeout = timeout)
    }

    /// How long a publisher may take. Default: 10 s.
    pub fn publish_timeout(self, timeout: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.publish_timeout = timeout)
    }

    /// How long a call to the store may take. Default: 10 s.
    pub fn store_timeout(self, timeout: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.store_timeout = timeout)
    }

    /// How long a shutdown waits for what is queued and running. Default: 5 s.
    pub fn drain(self, limit: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.drain = limit)
    }

    /// What becomes of old rows. Default: DONE deleted after 7 days, DEAD kept.
    pub fn purge(self, purge: PurgeConfig) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.purge = purge)
    }

    /// The prefix of every metric. Default: `outbox`.
    pub fn metrics_prefix(self, prefix: impl Into<String>) -> Self
    where
        M: Delivers,
    {
        let prefix = prefix.into();
        self.change(|config| config.metrics.prefix = prefix)
    }
}

impl Builder<Concurrent> {
    /// The only engine on this store. An event without a route is DEAD immediately, because no other node
    /// can have one, and a destination that cannot be reached is tried again by this engine. Default:
    /// there may be other engines.
    pub fn single_node(self) -> Self {
        self.change(|config| config.mode = Mode::SingleNode)
    }

    /// Strict order of insertion: the poller alone, one worker, one attempt. A failed event is DEAD,
    /// because a retry would let later events overtake it. A second engine waits for the first.
    pub fn strict(self) -> Builder<Strict> {
        self.change(|config| config.mode = Mode::Strict).in_mode()
    }

    /// Writes only: a relay elsewhere, or change data capture, delivers. Routes would be ignored and are refused
    /// when it is built: give [`Routes::new`]. It needs to be started only for its age-based purge.
    pub fn writer_only(self) -> Builder<WriterOnly> {
        self.change(|config| config.mode = Mode::WriterOnly).in_mode()
    }
}

/// Settings of the modes that deliver several events at a time.
impl<M> Builder<M> {
    /// How many events are worked on at once. Default: 4.
    pub fn workers(self, workers: usize) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.workers = Some(workers))
    }

    /// When to try again. Default: ten attempts, 200 ms doubling to 60 s.
    pub fn retry(self, retry: RetryPolicy) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.retry = Some(retry))
    }

    /// Failed attempts until an event is DEAD; 1 means no retry. Default: 10.
    pub fn max_attempts(self, attempts: u32) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.retry.get_or_insert_default().max_attempts = attempts)
    }

    /// The bounds of the queues. Default: 1000 hot and 1000 cold events, 16 MiB together.
    pub fn queue(self, queue: QueueConfig) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.queue = queue)
    }

    /// How long an engine holds an event that it no longer works on; while it does, the lease is renewed.
    /// Default: 30 s.
    pub fn lease(self, lease: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.lease.duration = lease)
    }

    /// The lease that a row is born with on the hot path. Default: 10 s.
    pub fn hot_lease(self, lease: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.lease.hot = lease)
    }

    /// How long an event without a route waits for a node that has one. Default: 10 min; zero, so DEAD
    /// immediately, on a [`single_node`](Self::single_node).
    pub fn no_route_grace(self, grace: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.no_route_grace = Some(grace))
    }

    /// How long an event may be turned away by a busy destination until it is DEAD. Default: 1 day.
    pub fn busy_grace(self, grace: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.busy_grace = grace)
    }
}

/// Settings of the writer-only mode.
impl<M> Builder<M> {
    /// Deletes rows of any status at this age, checked every `interval`. Default: never.
    pub fn purge_at_age(self, age: Duration, interval: Duration) -> Self
    where
        M: OnlyWrites,
    {
        self.change(|config| {
            config.purge.age = Some(age);
            config.purge.interval = interval;
        })
    }
}

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("config", &self.config)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}
