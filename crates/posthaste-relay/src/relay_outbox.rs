//! One outbox of a running relay: opens its store, then runs, replaces and stops its engine.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use posthaste::{Mode, Outbox};
use posthaste_admin::{AdminOutbox, error_chain};
use posthaste_stores::{OpenStore, Purpose};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::RelayError;
use crate::config::OutboxConfig;
use crate::publisher_pool::Destinations;

/// Delay before a store that could not be opened is tried again: the first, and the longest. It doubles each time.
const FIRST_OPEN_DELAY: Duration = Duration::from_millis(500);
const MAX_OPEN_DELAY: Duration = Duration::from_secs(10);

/// One outbox and what runs for it.
#[derive(Debug)]
pub(crate) struct RelayOutbox {
    /// The outbox as the API sees it.
    admin: Arc<AdminOutbox>,
    /// The newest plan. A reload writes it in [`adopt`](Self::adopt), before the engine follows in
    /// [`replace`](Self::replace). Locked only to copy or replace the plan, also while `running` is locked.
    plan: StdMutex<OutboxPlan>,
    /// `None` before the store is open and after the stop. Locked while an engine is replaced, so that reloads follow
    /// each other.
    running: Mutex<Option<RunningEngine>>,
    /// Replaced engines that still finish their deliveries.
    retiring: TaskTracker,
    /// Cancelled by [`stop`](Self::stop): the store is not opened any more.
    stop: CancellationToken,
}

/// A configuration that has passed every check, with its publishers. Applying it can no longer be refused.
#[derive(Clone, Debug)]
pub(crate) struct OutboxPlan {
    config: OutboxConfig,
    destinations: Destinations,
}

#[derive(Debug)]
struct RunningEngine {
    store: OpenStore,
    outbox: Outbox,
    /// Whether it runs in strict mode, in which no two engines may run at the same time.
    strict: bool,
}

impl OutboxPlan {
    /// Checks the configuration and builds its publishers, reusing those of `before`.
    fn new(config: OutboxConfig, before: &Destinations) -> Result<Self, RelayError> {
        let (routes, destinations) = Destinations::routes(&config.routes, before)?;
        routes.check(&config.config)?;
        Ok(Self { config, destinations })
    }

    fn routes(&self) -> Vec<String> {
        self.config.routes.iter().map(|route| route.name.clone()).collect()
    }

    fn is_strict(&self) -> bool {
        self.config.config.mode == Mode::Strict
    }
}

impl RelayOutbox {
    pub(crate) fn new(config: OutboxConfig) -> Result<Arc<Self>, RelayError> {
        let plan = OutboxPlan::new(config, &Destinations::default())?;
        Ok(Arc::new(Self {
            admin: Arc::new(AdminOutbox::new(&plan.config.config.name, plan.routes())),
            plan: StdMutex::new(plan),
            running: Mutex::new(None),
            retiring: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// The outbox as the API sees it.
    pub(crate) fn admin(&self) -> Arc<AdminOutbox> {
        Arc::clone(&self.admin)
    }

    fn plan(&self) -> OutboxPlan {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest configuration of this outbox.
    pub(crate) fn config(&self) -> OutboxConfig {
        self.plan().config
    }

    /// Opens the store and starts the engine.
    ///
    /// With `fail_fast`, a store that cannot be opened or a destination that cannot be reached is an error. Otherwise
    /// the store is tried again until the relay stops, and an unreachable destination is logged.
    pub(crate) async fn start(&self, fail_fast: bool) -> Result<(), RelayError> {
        if fail_fast {
            self.reach_destinations().await?;
            return self.open().await;
        }
        let log_unreachable = async {
            if let Err(error) = self.reach_destinations().await {
                tracing::warn!(
                    outbox = self.admin.name(),
                    error = %error_chain(&error),
                    "a destination cannot be reached; its events will wait"
                );
            }
        };
        tokio::join!(log_unreachable, self.open_in_the_end());
        Ok(())
    }

    /// Checks every destination; the error names all that cannot be reached.
    async fn reach_destinations(&self) -> Result<(), RelayError> {
        let unreached = self.plan().destinations.unreached().await;
        if unreached.is_empty() {
            return Ok(());
        }
        let each = unreached.iter().map(|(url, why)| format!("{url} cannot be reached: {why}"));
        Err(RelayError::Unreachable(each.collect::<Vec<_>>().join("; ")))
    }

    async fn open_in_the_end(&self) {
        let mut pause = FIRST_OPEN_DELAY;
        loop {
            let Err(error) = self.open().await else { return };
            tracing::error!(
                outbox = self.admin.name(),
                error = %error_chain(&error),
                next_try = ?pause,
                "the store cannot be opened; trying again"
            );
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => return,
            }
            pause = (pause * 2).min(MAX_OPEN_DELAY);
        }
    }

    async fn open(&self) -> Result<(), RelayError> {
        let OutboxConfig { store, migrate, .. } = self.config();
        let opened = posthaste_stores::open(&store, Purpose::run(migrate)).await?;
        let mut running = self.running.lock().await;
        if self.stop.is_cancelled() {
            opened.close().await;
            return Ok(());
        }
        // A reload may have changed the plan while the store was being opened.
        let plan = self.plan();
        let outbox = self.engine(&plan, &opened)?;
        tracing::info!(outbox = self.admin.name(), store = %store.url, routes = plan.config.routes.len(), "delivering");
        let limits = opened.limits().join("; ");
        if !limits.is_empty() {
            let table = store.outbox_ref();
            tracing::warn!(outbox = self.admin.name(), %table, limits, "the outbox is a foreign table");
        }
        self.admin.opened(opened.admin(), opened.store());
        *running = Some(RunningEngine { store: opened, outbox, strict: plan.is_strict() });
        Ok(())
    }

    /// Starts an engine with this plan.
    fn engine(&self, plan: &OutboxPlan, opened: &OpenStore) -> Result<Outbox, RelayError> {
        let (routes, _) = Destinations::routes(&plan.config.routes, &plan.destinations)?;
        Outbox::from_config(opened.store(), plan.config.config.clone(), routes)
            .interceptor(self.admin.feed().clone())
            .start()
            .map_err(|source| RelayError::Start { outbox: self.admin.name().to_owned(), source })
    }

    /// Checks a new configuration, without changing anything.
    pub(crate) fn prepare(&self, config: OutboxConfig) -> Result<OutboxPlan, RelayError> {
        OutboxPlan::new(config, &self.plan().destinations)
    }

    /// Stores a new plan; [`replace`](Self::replace) then applies it.
    pub(crate) fn adopt(&self, plan: OutboxPlan) {
        self.admin.set_routes(plan.routes());
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Replaces the engine by one with the current plan.
    ///
    /// The new engine starts first. Then the old one finishes the deliveries that it has begun and releases its other
    /// events, so no event is lost and none waits. In strict mode the old engine ends before the new one starts. If the
    /// new engine cannot start, no engine runs in strict mode, and the old one keeps running otherwise.
    pub(crate) async fn replace(&self) -> Result<(), RelayError> {
        let mut running = self.running.lock().await;
        let plan = self.plan();
        // If the store is not open yet, `open` will use this plan.
        if let Some(running) = running.as_mut().filter(|_| !self.stop.is_cancelled()) {
            if running.strict || plan.is_strict() {
                running.outbox.retire().await;
            }
            let old = std::mem::replace(&mut running.outbox, self.engine(&plan, &running.store)?);
            running.strict = plan.is_strict();
            self.retiring.spawn(async move { old.retire().await });
        }
        tracing::info!(outbox = self.admin.name(), routes = plan.config.routes.len(), "new configuration");
        Ok(())
    }

    /// Stops the engine. It finishes deliveries within its `drain` limit and releases the rest. Then the store closes.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        let running = self.running.lock().await.take();
        if let Some(RunningEngine { store, outbox, .. }) = running {
            outbox.shutdown().await;
            self.retiring.close();
            self.retiring.wait().await;
            store.close().await;
        }
    }
}
