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
    /// Builds an outbox whose engine delivers through the hot path and the poller. Other processes may run any number
    /// of engines on the same store.
    pub fn builder<S>(store: impl Store, routes: Routes<S>) -> Builder<Concurrent> {
        Builder::new(Config::default(), Arc::new(store), routes.with_state(()))
    }

    /// Builds an outbox of any mode from a configuration.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
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

/// Builds an [`Outbox`]. The compiler refuses a setting that makes no sense in the mode and says why.
#[must_use = "an outbox exists only after `build` or `start`"]
pub struct Builder<M = Concurrent> {
    config: Config,
    /// Applied to the retry policy at the end, so that the order of the two setters does not matter.
    max_attempts: Option<u32>,
    store: Arc<dyn Store>,
    routes: Routes,
    hooks: Vec<Arc<dyn WriterHook>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    mode: PhantomData<M>,
}

impl<M> Builder<M> {
    fn new(config: Config, store: Arc<dyn Store>, routes: Routes) -> Self {
        let (hooks, interceptors) = (Vec::new(), Vec::new());
        Self { config, max_attempts: None, store, routes, hooks, interceptors, mode: PhantomData }
    }

    /// Sets the name of this outbox in metrics and logs. Default: `outbox`.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.change(|config| config.name = name)
    }

    /// Adds a hook around every write. Default: none.
    pub fn hook(mut self, hook: impl WriterHook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// The largest payload that may be written, in bytes. Default: 1 MiB.
    pub fn payload_bytes(self, bytes: usize) -> Self {
        self.change(|config| config.payload_bytes = bytes)
    }

    /// Builds the outbox without starting it. The error lists every problem.
    pub fn build(mut self) -> Result<Outbox, ConfigError> {
        if let Some(attempts) = self.max_attempts {
            self.config.retry.get_or_insert_default().max_attempts = attempts;
        }
        Outbox::new(self.store, &self.config, self.routes, self.hooks, self.interceptors)
    }

    /// Builds and starts the outbox.
    pub fn start(self) -> Result<Outbox, StartError> {
        let outbox = self.build()?;
        outbox.start()?;
        Ok(outbox)
    }

    fn in_mode<N>(self) -> Builder<N> {
        let Self { config, max_attempts, store, routes, hooks, interceptors, mode: _ } = self;
        Builder { config, max_attempts, store, routes, hooks, interceptors, mode: PhantomData }
    }

    fn change(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }
}

/// Settings of every mode that may deliver.
impl<M> Builder<M> {
    /// Adds an interceptor around every delivery, inside those that were added before. Default: none.
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
    /// The pause between two polls if no hint comes first. Default: 5 s.
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

    /// Ignores events that were inserted less than this ago. Default: zero.
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

    /// How long a shutdown waits for queued and running events. Default: 5 s.
    pub fn drain(self, limit: Duration) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.drain = limit)
    }

    /// What happens to old rows. Default: DONE rows are deleted after 7 days, DEAD rows are kept.
    pub fn purge(self, purge: PurgeConfig) -> Self
    where
        M: Delivers,
    {
        self.change(|config| config.purge = purge)
    }

    /// The prefix of every metric name. Default: `outbox`.
    pub fn metrics_prefix(self, prefix: impl Into<String>) -> Self
    where
        M: Delivers,
    {
        let prefix = prefix.into();
        self.change(|config| config.metrics.prefix = prefix)
    }
}

impl Builder<Concurrent> {
    /// This is the only engine on the store. An event without a route is DEAD immediately, because no other node can
    /// have a route for it, and an event whose destination cannot be reached is tried again by this engine. Default:
    /// there may be other engines.
    pub fn single_node(self) -> Self {
        self.change(|config| config.mode = Mode::SingleNode)
    }

    /// Strict order of insertion: only the poller, one worker and one attempt. A failed event is DEAD, because a retry
    /// would let later events overtake it. A second engine on the same store waits for the first.
    pub fn strict(self) -> Builder<Strict> {
        self.change(|config| config.mode = Mode::Strict).in_mode()
    }

    /// Writes only: a relay in another process, or change data capture, delivers. It takes no routes: pass
    /// [`Routes::new`], or building it fails. It needs to be started only for its purge by age.
    pub fn writer_only(self) -> Builder<WriterOnly> {
        self.change(|config| config.mode = Mode::WriterOnly).in_mode()
    }
}

/// Settings of the modes that deliver several events at a time.
impl<M> Builder<M> {
    /// How many deliveries run at the same time. Default: 4.
    pub fn workers(self, workers: usize) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.workers = Some(workers))
    }

    /// When to try again after a failure. Default: ten attempts, 200 ms doubling to 60 s.
    pub fn retry(self, retry: RetryPolicy) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.retry = Some(retry))
    }

    /// Failed attempts until an event is DEAD; 1 means no retry. It replaces the number in [`retry`](Self::retry),
    /// whichever comes first. Default: 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self
    where
        M: TakesSeveral,
    {
        self.max_attempts = Some(attempts);
        self
    }

    /// The bounds of the queues. Default: 1000 hot and 1000 cold events, 16 MiB together.
    pub fn queue(self, queue: QueueConfig) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.queue = queue)
    }

    /// The lease of a claimed event. The engine renews it while it holds the event; when the engine dies, another one
    /// can claim the event after this time. Default: 30 s.
    pub fn lease(self, lease: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.lease.duration = lease)
    }

    /// The lease with which a row is born on the hot path. Default: 10 s.
    pub fn hot_lease(self, lease: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.lease.hot = lease)
    }

    /// How long an event without a route waits for a node that has one. Default: 10 min. On a
    /// [`single_node`](Self::single_node) the default is zero: such an event is DEAD immediately.
    pub fn no_route_grace(self, grace: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.no_route_grace = Some(grace))
    }

    /// How long a busy destination may turn an event away before the event is DEAD. Default: 1 day.
    pub fn busy_grace(self, grace: Duration) -> Self
    where
        M: TakesSeveral,
    {
        self.change(|config| config.busy_grace = grace)
    }
}

/// Settings of the writer-only mode.
impl<M> Builder<M> {
    /// Deletes rows of any status at this age. Checks every `interval`. Default: never.
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
