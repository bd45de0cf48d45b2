//! A running relay as a source, observed through its HTTP API.

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use posthaste::admin::{Backlog, DeadGroup, Stats};
use posthaste_admin::Client;
use posthaste_admin::wire::{self, Changed, Count, Events, Groups, Outbox, Outboxes};
use posthaste_stores::redact;
use serde_json::json;
use tokio::time::Instant;

use super::outbox_snapshot::{
    DeadEvent, DeadGroupKey, MAX_GROUPS, MAX_LISTED_EVENTS, Observation, OutboxSnapshot, RouteSnapshot,
    RouteState, other_routes, parked_names,
};
use super::relay_metrics::RelayMetrics;
use super::source::Source;
use crate::errors;

/// Outboxes that are read concurrently. A relay serves only a limited number of requests at a time.
const MAX_CONCURRENT_OUTBOXES: usize = 4;

#[derive(Debug)]
pub(super) struct RelaySource(Client);

impl RelaySource {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }

    async fn observe_outbox(&self, outbox: Outbox, metrics: &RelayMetrics) -> Observation {
        let snapshot = match outbox.open {
            true => self.snapshot(&outbox, metrics).await.map_err(|error| errors::in_a_line(&error)),
            false => Err("the relay has not opened its store yet and keeps trying".to_owned()),
        };
        Observation { outbox: Some(outbox.outbox), snapshot }
    }

    async fn snapshot(&self, outbox: &Outbox, metrics: &RelayMetrics) -> anyhow::Result<OutboxSnapshot> {
        let name = &*outbox.outbox;
        let (path, limit) = (|last| ["outboxes", name, last], MAX_GROUPS.to_string());
        let stats = Stats::from(self.0.get::<wire::Stats>(&path("stats"), &[]).await?);
        let backlog = async |by| {
            let query = [("by", by), ("limit", &*limit)];
            self.0.get::<wire::Backlog>(&path("backlog"), &query).await.map(Backlog::from)
        };
        Ok(OutboxSnapshot {
            routes: self.routes(outbox, &stats, metrics).await?,
            by_type: backlog("type").await?,
            by_tenant: backlog("tenant").await?,
            groups: if stats.dead > 0 { self.groups(name, &limit).await? } else { Vec::new() },
            delivered: metrics.delivered(name),
            stats,
        })
    }

    async fn groups(&self, outbox: &str, limit: &str) -> anyhow::Result<Vec<DeadGroup>> {
        let path = ["outboxes", outbox, "dead", "groups"];
        let Groups { groups, .. } = self.0.get(&path, &[("limit", limit)]).await?;
        Ok(groups.into_iter().map(DeadGroup::from).collect())
    }

    /// The routes of the configuration, and paused routes that no configuration has any more.
    async fn routes(
        &self,
        outbox: &Outbox,
        stats: &Stats,
        metrics: &RelayMetrics,
    ) -> anyhow::Result<Vec<RouteSnapshot>> {
        let gone = stats.paused.iter().filter(|paused| !outbox.routes.contains(paused));
        let mut routes = Vec::new();
        for name in outbox.routes.iter().chain(gone) {
            let metrics = metrics.route(&outbox.outbox, name);
            let state = match (stats.paused.contains(name), metrics.unreachable) {
                (true, _) => RouteState::Paused,
                (false, true) => RouteState::Unreachable,
                (false, false) => RouteState::Open,
            };
            let counts = state != RouteState::Open && stats.parked > 0 && !stats.estimated.pending;
            let parked = match counts {
                true => Some(self.parked(&outbox.outbox, name).await?),
                false => Some(0).filter(|_| stats.parked == 0),
            };
            routes.push(RouteSnapshot { name: name.clone(), state, parked, calls: metrics.calls });
        }
        routes.extend(other_routes(stats, &routes));
        Ok(routes)
    }

    async fn parked(&self, outbox: &str, route: &str) -> anyhow::Result<u64> {
        let mut count = 0;
        for parked in parked_names(route) {
            count += self.counted(outbox, &[("parked", &parked)]).await?;
        }
        Ok(count)
    }

    async fn counted(&self, outbox: &str, query: &[(&str, &str)]) -> anyhow::Result<u64> {
        let Count { count, .. } = self.0.get(&["outboxes", outbox, "count"], query).await?;
        Ok(count)
    }
}

#[async_trait]
impl Source for RelaySource {
    fn label(&self) -> String {
        let url = redact(self.0.url());
        url.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    /// A relay records the name of the token. Without tokens it records `api:local`.
    fn actor(&self) -> String {
        if self.0.has_token() { "the name of your token".to_owned() } else { "api:local".to_owned() }
    }

    async fn observe(&self) -> anyhow::Result<Vec<Observation>> {
        let Outboxes { outboxes, .. } = self.0.get(&["outboxes"], &[]).await?;
        // Without its metrics most of the snapshot is still available.
        let metrics = RelayMetrics::read(&self.0.metrics().await.unwrap_or_default());
        let observations = outboxes.into_iter().map(|outbox| self.observe_outbox(outbox, &metrics));
        Ok(stream::iter(observations).buffered(MAX_CONCURRENT_OUTBOXES).collect().await)
    }

    async fn list(&self, group: &DeadGroupKey) -> anyhow::Result<Vec<DeadEvent>> {
        let limit = MAX_LISTED_EVENTS.to_string();
        let query = [conditions(group), vec![("status", "DEAD"), ("limit", &limit)]].concat();
        let Events { events, .. } = self.0.get(&["outboxes", outbox(group), "events"], &query).await?;
        Ok(events.into_iter().map(DeadEvent::from).collect())
    }

    async fn count(&self, group: &DeadGroupKey) -> anyhow::Result<u64> {
        let query = [conditions(group), vec![("status", "DEAD")]].concat();
        self.counted(outbox(group), &query).await
    }

    async fn replay(&self, group: &DeadGroupKey, since: Option<Instant>, limit: u64) -> anyhow::Result<u64> {
        let mut filter: serde_json::Map<_, _> =
            conditions(group).into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        if let Some(began) = since {
            // The API takes whole seconds, so events that died up to one second before `began` are left out.
            let seconds = began.elapsed().as_secs() + 1;
            filter.insert("older_than".to_owned(), format!("{seconds}s").into());
        }
        let body = json!({"filter": filter, "limit": limit});
        let path = ["outboxes", outbox(group), "dead", "replay"];
        let Changed { changed, .. } = self.0.post(&path, &body).await?;
        Ok(changed)
    }
}

fn outbox(group: &DeadGroupKey) -> &str {
    group.outbox.as_deref().unwrap_or_default()
}

/// The filter of the group, as query parameters of the API.
fn conditions(group: &DeadGroupKey) -> Vec<(&'static str, &str)> {
    let mut conditions = vec![("type", &*group.event_type), ("aggregate_type", &*group.aggregate_type)];
    if !group.reason.is_empty() {
        conditions.push(("error", &*group.reason));
    }
    conditions
}
