//! A store, looked at through `Admin`.

use std::sync::Arc;

use posthaste::StoreError;
use posthaste::admin::{Admin, BacklogBy, Filter, PageRequest, Replay, Stats};
use posthaste_admin::wire::Row;
use posthaste_stores::{OpenStore, Purpose, StoreSpec};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::seen::{DeadEvent, Group, Look, RouteSeen, RouteState, Seen, others, parked_as};
use super::source::{EVENTS, GROUPS};
use crate::commands::{bulk, listing};

#[derive(Debug)]
pub(super) struct StoreSource {
    spec: StoreSpec,
    actor: String,
    /// Opened by the first look that succeeds.
    opened: Mutex<Option<OpenStore>>,
}

impl StoreSource {
    pub(super) fn new(spec: StoreSpec, actor: String) -> Self {
        Self { spec, actor, opened: Mutex::new(None) }
    }

    pub(super) fn label(&self) -> String {
        format!("{}{}", self.spec.url, self.spec.outbox_ref().options())
    }

    pub(super) fn actor(&self) -> &str {
        &self.actor
    }

    async fn admin(&self) -> anyhow::Result<Arc<dyn Admin>> {
        let mut opened = self.opened.lock().await;
        if let Some(opened) = &*opened {
            return Ok(opened.admin());
        }
        let now_open = posthaste_stores::open(&self.spec, Purpose::Look).await?;
        Ok(opened.insert(now_open).admin())
    }

    pub(super) async fn look(&self) -> anyhow::Result<Vec<Look>> {
        let admin = self.admin().await?;
        Ok(vec![Look { outbox: None, seen: Ok(seen(&*admin).await?) }])
    }

    pub(super) async fn list(&self, group: &Group) -> anyhow::Result<Vec<DeadEvent>> {
        let admin = self.admin().await?;
        let page = listing::full_page(&*admin, &group.filter(), PageRequest::first(EVENTS)).await?;
        Ok(page.items.iter().map(|row| DeadEvent::from(Row::from(row))).collect())
    }

    pub(super) async fn count(&self, group: &Group) -> anyhow::Result<u64> {
        Ok(self.admin().await?.count(&group.filter()).await?)
    }

    /// A foreign table does not know when an event died.
    pub(super) async fn replay(
        &self,
        group: &Group,
        since: Option<Instant>,
        limit: u64,
    ) -> anyhow::Result<u64> {
        let (admin, limit) = (self.admin().await?, usize::try_from(limit)?);
        let filter = match since.filter(|_| self.spec.layout.is_none()) {
            Some(began) => bulk::dead_since(&group.filter(), began),
            None => group.filter(),
        };
        Ok(admin.replay_all(&filter, limit, &Replay::by(&self.actor)).await?)
    }

    pub(super) async fn close(&self) {
        if let Some(opened) = self.opened.lock().await.take() {
            opened.close().await;
        }
    }
}

async fn seen(admin: &dyn Admin) -> Result<Seen, StoreError> {
    let stats = admin.stats().await?;
    Ok(Seen {
        routes: routes(admin, &stats).await?,
        by_type: admin.backlog(BacklogBy::Type, GROUPS).await?,
        by_tenant: admin.backlog(BacklogBy::Tenant, GROUPS).await?,
        groups: if stats.dead > 0 { admin.dead_groups(GROUPS).await? } else { Vec::new() },
        delivered: None,
        stats,
    })
}

/// A store knows of a route only that somebody paused it, or that events wait for it.
async fn routes(admin: &dyn Admin, stats: &Stats) -> Result<Vec<RouteSeen>, StoreError> {
    let mut routes = Vec::new();
    for name in &stats.paused {
        let parked = match stats.parked {
            0 => Some(0),
            _ if stats.estimated.pending => None,
            _ => Some(parked(admin, name).await?),
        };
        routes.push(RouteSeen { name: name.clone(), state: RouteState::Paused, parked, calls: None });
    }
    routes.extend(others(stats, &routes));
    Ok(routes)
}

async fn parked(admin: &dyn Admin, route: &str) -> Result<u64, StoreError> {
    let mut count = 0;
    for parked in parked_as(route) {
        count += admin.count(&Filter { parked: Some(parked), ..Filter::default() }).await?;
    }
    Ok(count)
}
