//! One outbox of the relay: its store is opened, its engine runs, is replaced, stops.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use posthaste::{Mode, Outbox};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::destinations::Destinations;
use super::served::Served;
use crate::config::OutboxConfig;
use crate::connect::{self, Opened, Purpose};
use crate::failure::one_line;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What runs for one outbox.
#[derive(Debug)]
pub(super) struct RelayOutbox {
    served: Arc<Served>,
    /// What it is told to do, which may be ahead of what runs.
    plan: StdMutex<Plan>,
    /// None until the store is open. Held while the engine is replaced: one change comes after the other.
    running: Mutex<Option<Running>>,
    /// Engines that finish what they have begun.
    retiring: TaskTracker,
    stop: CancellationToken,
}

/// A configuration that can run: everything that may be refused was asked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    config: OutboxConfig,
    destinations: Destinations,
}

#[derive(Debug)]
struct Running {
    opened: Opened,
    outbox: Outbox,
    /// In ordered mode no two engines run at once.
    ordered: bool,
}

impl Plan {
    /// With the publishers of `before` where they are the same.
    fn new(config: OutboxConfig, before: &Destinations) -> anyhow::Result<Self> {
        let (routes, destinations) = Destinations::routes(&config.routes, before)?;
        // The store plays no part in what is checked.
        Outbox::from_config(posthaste::MemoryStore::new(), config.config.clone(), routes).build()?;
        Ok(Self { config, destinations })
    }

    fn routes(&self) -> Vec<String> {
        self.config.routes.iter().map(|route| route.name.clone()).collect()
    }

    fn is_ordered(&self) -> bool {
        self.config.config.mode == Mode::Ordered
    }
}

impl RelayOutbox {
    pub(super) fn new(config: OutboxConfig) -> anyhow::Result<Arc<Self>> {
        let plan = Plan::new(config, &Destinations::default())?;
        Ok(Arc::new(Self {
            served: Arc::new(Served::new(&plan.config.config.name, plan.routes())),
            plan: StdMutex::new(plan),
            running: Mutex::new(None),
            retiring: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    pub(super) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served)
    }

    fn plan(&self) -> Plan {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What this outbox is told now.
    pub(super) fn config(&self) -> OutboxConfig {
        self.plan().config
    }

    /// Opens the store and starts the engine. A store that cannot be opened is tried again until it
    /// can, or until the relay stops, and a destination that cannot be reached is told; with `fail_fast`
    /// both are errors.
    pub(super) async fn start(&self, fail_fast: bool) -> anyhow::Result<()> {
        if fail_fast {
            self.reach_destinations().await?;
            return self.open().await;
        }
        let told = async {
            if let Err(error) = self.reach_destinations().await {
                tracing::warn!(outbox = self.served.name(), error = %one_line(error.as_ref()), "events will wait");
            }
        };
        tokio::join!(told, self.open_in_the_end());
        Ok(())
    }

    /// An error names every destination that cannot be reached.
    async fn reach_destinations(&self) -> anyhow::Result<()> {
        let unreached = self.plan().destinations.unreached().await;
        if unreached.is_empty() {
            return Ok(());
        }
        let each = unreached.iter().map(|(url, why)| format!("{url} cannot be reached: {why}"));
        bail!("{}", each.collect::<Vec<_>>().join("; "))
    }

    async fn open_in_the_end(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.open().await else { return };
            tracing::error!(
                outbox = self.served.name(),
                error = %one_line(error.as_ref()),
                next_try = ?pause,
                "the store cannot be opened; trying again"
            );
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open(&self) -> anyhow::Result<()> {
        let OutboxConfig { store, migrate, .. } = self.config();
        let opened = connect::open(&store, Purpose::Run { migrate }).await?;
        let mut running = self.running.lock().await;
        if self.stop.is_cancelled() {
            opened.close().await;
            return Ok(());
        }
        // The plan may have changed while the store was opened.
        let plan = self.plan();
        let outbox = self.engine(&plan, &opened)?;
        tracing::info!(outbox = self.served.name(), store = %store.url, routes = plan.config.routes.len(), "delivering");
        let limits = opened.limits().join("; ");
        if !limits.is_empty() {
            tracing::warn!(outbox = self.served.name(), table = %store.place(), limits, "the table is another's");
        }
        self.served.opened(opened.admin(), opened.store());
        *running = Some(Running { opened, outbox, ordered: plan.is_ordered() });
        Ok(())
    }

    /// A running engine.
    fn engine(&self, plan: &Plan, opened: &Opened) -> anyhow::Result<Outbox> {
        let (routes, _) = Destinations::routes(&plan.config.routes, &plan.destinations)?;
        Outbox::from_config(opened.store(), plan.config.config.clone(), routes)
            .interceptor(self.served.tail().clone())
            .start()
            .with_context(|| format!("the outbox {} cannot start", self.served.name()))
    }

    /// Everything that could be wrong with this configuration is asked here; nothing changes yet.
    pub(super) fn prepare(&self, config: OutboxConfig) -> anyhow::Result<Plan> {
        Plan::new(config, &self.plan().destinations)
    }

    /// From now on this is the plan; [`replace`](Self::replace) carries it out.
    pub(super) fn adopt(&self, plan: Plan) {
        self.served.set_routes(plan.routes());
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Goes on with the plan as it is now. The new engine starts, then the old one finishes what it has begun
    /// and gives the rest back: no event is lost, and none waits. In ordered mode the old one ends first.
    /// After an error no engine runs.
    pub(super) async fn replace(&self) -> anyhow::Result<()> {
        let mut running = self.running.lock().await;
        let plan = self.plan();
        // A store that is not open yet will be opened with this plan.
        if let Some(running) = running.as_mut().filter(|_| !self.stop.is_cancelled()) {
            if running.ordered || plan.is_ordered() {
                running.outbox.retire().await;
            }
            let old = std::mem::replace(&mut running.outbox, self.engine(&plan, &running.opened)?);
            running.ordered = plan.is_ordered();
            self.retiring.spawn(async move { old.retire().await });
        }
        tracing::info!(outbox = self.served.name(), routes = plan.config.routes.len(), "new configuration");
        Ok(())
    }

    /// Stops: what is under way is finished within the drain limit, the rest goes back to the store.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        let running = self.running.lock().await.take();
        if let Some(Running { opened, outbox, .. }) = running {
            outbox.shutdown().await;
            self.retiring.close();
            self.retiring.wait().await;
            opened.close().await;
        }
    }
}
