//! A store as a source, observed through `Admin`.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::StoreError;
use posthaste::admin::{Admin, BacklogBy, Filter, PageRequest, ParkReason, Replay, Stats};
use posthaste_admin::wire::Row;
use posthaste_stores::{OpenStore, Purpose, StoreSpec};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::outbox_snapshot::{
    DeadEvent, DeadGroupKey, MAX_GROUPS, MAX_LISTED_EVENTS, Observation, OutboxSnapshot, RouteSnapshot,
    RouteState, other_routes,
};
use super::source::Source;
use crate::commands::shared::{bulk_change, pages};

/// A store that is opened on first use.
#[derive(Debug)]
pub(super) struct StoreSource {
    spec: StoreSpec,
    actor: String,
    /// `None` until an observation has opened it. The lock is held while it is being opened.
    opened: Mutex<Option<OpenStore>>,
}

impl StoreSource {
    pub(super) fn new(spec: StoreSpec, actor: String) -> Self {
        Self { spec, actor, opened: Mutex::new(None) }
    }

    async fn admin(&self) -> anyhow::Result<Arc<dyn Admin>> {
        let mut opened = self.opened.lock().await;
        if let Some(opened) = &*opened {
            return Ok(opened.admin());
        }
        let now_open = posthaste_stores::open(&self.spec, Purpose::Look).await?;
        Ok(opened.insert(now_open).admin())
    }
}

#[async_trait]
impl Source for StoreSource {
    fn label(&self) -> String {
        format!("{}{}", self.spec.url, self.spec.outbox_ref().options())
    }

    fn actor(&self) -> String {
        self.actor.clone()
    }

    async fn observe(&self) -> anyhow::Result<Vec<Observation>> {
        let admin = self.admin().await?;
        Ok(vec![Observation { outbox: None, snapshot: Ok(snapshot(&*admin).await?) }])
    }

    async fn list(&self, group: &DeadGroupKey) -> anyhow::Result<Vec<DeadEvent>> {
        let admin = self.admin().await?;
        let page = pages::full_page(&*admin, &group.filter(), PageRequest::first(MAX_LISTED_EVENTS)).await?;
        Ok(page.items.iter().map(|row| DeadEvent::from(Row::from(row))).collect())
    }

    async fn count(&self, group: &DeadGroupKey) -> anyhow::Result<u64> {
        Ok(self.admin().await?.count(&group.filter()).await?)
    }

    /// For a foreign table `since` is ignored, because such a table does not record when an event died.
    async fn replay(&self, group: &DeadGroupKey, since: Option<Instant>, limit: u64) -> anyhow::Result<u64> {
        let (admin, limit) = (self.admin().await?, usize::try_from(limit)?);
        let filter = match since.filter(|_| self.spec.layout.is_none()) {
            Some(began) => bulk_change::dead_since(&group.filter(), began),
            None => group.filter(),
        };
        Ok(admin.replay_all(&filter, limit, &Replay::by(&self.actor)).await?)
    }

    async fn close(&self) {
        if let Some(opened) = self.opened.lock().await.take() {
            opened.close().await;
        }
    }
}

async fn snapshot(admin: &dyn Admin) -> Result<OutboxSnapshot, StoreError> {
    let stats = admin.stats().await?;
    Ok(OutboxSnapshot {
        routes: routes(admin, &stats).await?,
        by_type: admin.backlog(BacklogBy::Type, MAX_GROUPS).await?,
        by_tenant: admin.backlog(BacklogBy::Tenant, MAX_GROUPS).await?,
        groups: if stats.dead > 0 { admin.dead_groups(MAX_GROUPS).await? } else { Vec::new() },
        delivered: None,
        stats,
    })
}

/// The paused routes, and one entry for all other parked events: a store does not know which routes exist.
async fn routes(admin: &dyn Admin, stats: &Stats) -> Result<Vec<RouteSnapshot>, StoreError> {
    let mut routes = Vec::new();
    for name in &stats.paused {
        let parked = match stats.parked {
            0 => Some(0),
            _ if stats.estimated.pending => None,
            _ => Some(parked(admin, name).await?),
        };
        routes.push(RouteSnapshot { name: name.clone(), state: RouteState::Paused, parked, calls: None });
    }
    routes.extend(other_routes(stats, &routes));
    Ok(routes)
}

async fn parked(admin: &dyn Admin, route: &str) -> Result<u64, StoreError> {
    let mut count = 0;
    for reason in ParkReason::of_route(route) {
        count += admin.count(&Filter::default().with_parked(reason)).await?;
    }
    Ok(count)
}
