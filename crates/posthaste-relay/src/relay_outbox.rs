//! One outbox of the relay: its store is opened, its engine runs, is replaced, stops.

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

/// How long a store that could not be opened is left alone: at first, and at most.
const FIRST_OPEN_DELAY: Duration = Duration::from_millis(500);
const MAX_OPEN_DELAY: Duration = Duration::from_secs(10);

/// What runs for one outbox.
#[derive(Debug)]
pub(crate) struct RelayOutbox {
    admin: Arc<AdminOutbox>,
    /// What it is told to do, which may be ahead of what runs.
    plan: StdMutex<OutboxPlan>,
    /// None until the store is open. Held while the engine is replaced: one change comes after the other.
    running: Mutex<Option<RunningEngine>>,
    /// Engines that finish what they have begun.
    retiring: TaskTracker,
    stop: CancellationToken,
}

/// A configuration that can run: everything that may be refused was asked.
#[derive(Clone, Debug)]
pub(crate) struct OutboxPlan {
    config: OutboxConfig,
    destinations: Destinations,
}

#[derive(Debug)]
struct RunningEngine {
    store: OpenStore,
    outbox: Outbox,
    /// In strict mode no two engines run at once.
    strict: bool,
}

impl OutboxPlan {
    /// With the publishers of `before` where they are the same.
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

    /// What the API sees of it.
    pub(crate) fn admin(&self) -> Arc<AdminOutbox> {
        Arc::clone(&self.admin)
    }

    fn plan(&self) -> OutboxPlan {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What this outbox is told now.
    pub(crate) fn config(&self) -> OutboxConfig {
        self.plan().config
    }

    /// Opens the store and starts the engine. A store that cannot be opened is tried again until it
    /// can, or until the relay stops, and a destination that cannot be reached is told; with `fail_fast`
    /// both are errors.
    pub(crate) async fn start(&self, fail_fast: bool) -> Result<(), RelayError> {
        if fail_fast {
            self.reach_destinations().await?;
            return self.open().await;
        }
        let told = async {
            if let Err(error) = self.reach_destinations().await {
                tracing::warn!(outbox = self.admin.name(), error = %error_chain(&error), "events will wait");
            }
        };
        tokio::join!(told, self.open_in_the_end());
        Ok(())
    }

    /// An error names every destination that cannot be reached.
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
        // The plan may have changed while the store was opened.
        let plan = self.plan();
        let outbox = self.engine(&plan, &opened)?;
        tracing::info!(outbox = self.admin.name(), store = %store.url, routes = plan.config.routes.len(), "delivering");
        let limits = opened.limits().join("; ");
        if !limits.is_empty() {
            tracing::warn!(outbox = self.admin.name(), table = %store.outbox_ref(), limits, "the table is another's");
        }
        self.admin.opened(opened.admin(), opened.store());
        *running = Some(RunningEngine { store: opened, outbox, strict: plan.is_strict() });
        Ok(())
    }

    /// A running engine.
    fn engine(&self, plan: &OutboxPlan, opened: &OpenStore) -> Result<Outbox, RelayError> {
        let (routes, _) = Destinations::routes(&plan.config.routes, &plan.destinations)?;
        Outbox::from_config(opened.store(), plan.config.config.clone(), routes)
            .interceptor(self.admin.feed().clone())
            .start()
            .map_err(|source| RelayError::Start { outbox: self.admin.name().to_owned(), source })
    }

    /// Everything that could be wrong with this configuration is asked here; nothing changes yet.
    pub(crate) fn prepare(&self, config: OutboxConfig) -> Result<OutboxPlan, RelayError> {
        OutboxPlan::new(config, &self.plan().destinations)
    }

    /// From now on this is the plan; [`replace`](Self::replace) carries it out.
    pub(crate) fn adopt(&self, plan: OutboxPlan) {
        self.admin.set_routes(plan.routes());
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Goes on with the plan as it is now. The new engine starts, then the old one finishes what it has begun
    /// and gives the rest back: no event is lost, and none waits. In strict mode the old one ends first.
    /// After an error no engine runs.
    pub(crate) async fn replace(&self) -> Result<(), RelayError> {
        let mut running = self.running.lock().await;
        let plan = self.plan();
        // A store that is not open yet will be opened with this plan.
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

    /// Stops: what is under way is finished within the drain limit, the rest goes back to the store.
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
