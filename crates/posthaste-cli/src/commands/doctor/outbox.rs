//! Checks of one outbox: its store and, if there is a configuration, its routes and their destinations.

use posthaste::Admin;
use posthaste::admin::{Finding, Tolerance};

use super::report::OutboxDiagnosis;
use super::store_unavailable;
use super::{destinations, routes};
use posthaste_relay::config::{OutboxConfig, RouteConfig};
use posthaste_stores::{OpenStoreError, Purpose, StoreSpec};

/// One outbox, and the routes of its relay if they are known.
pub(super) struct OutboxCheck {
    name: Option<String>,
    store: StoreSpec,
    routes: Vec<RouteConfig>,
}

impl OutboxCheck {
    /// An outbox without a configuration: its routes are unknown.
    pub(super) fn alone(store: StoreSpec) -> Self {
        Self { name: None, store, routes: Vec::new() }
    }

    pub(super) fn configured(config: OutboxConfig, is_named: bool) -> Self {
        let name = is_named.then_some(config.config.name);
        Self { name, store: config.store, routes: config.routes }
    }

    /// Returns an error only for wrong usage. A store that cannot be checked is a finding.
    pub(super) async fn examine(self, tolerance: &Tolerance) -> anyhow::Result<OutboxDiagnosis> {
        let of_store = self.of_store(tolerance).await?;
        let (routes, found) = (self.routes.len(), destinations::check(&self.routes).await);
        Ok(OutboxDiagnosis {
            outbox: self.name,
            store: self.store.url.to_string(),
            table: self.store.outbox_ref(),
            routes,
            destinations: found.count,
            findings: of_store.into_iter().chain(found.findings).collect(),
        })
    }

    async fn of_store(&self, tolerance: &Tolerance) -> anyhow::Result<Vec<Finding>> {
        let opened = match posthaste_stores::open(&self.store, Purpose::Look).await {
            Ok(opened) => opened,
            Err(OpenStoreError::Invalid(error)) => return Err(error.into()),
            Err(error) => return Ok(vec![store_unavailable::finding(&error.into())]),
        };
        let findings = self.through(&*opened.admin(), tolerance).await;
        opened.close().await;
        Ok(findings)
    }

    async fn through(&self, admin: &dyn Admin, tolerance: &Tolerance) -> Vec<Finding> {
        match admin.diagnose(tolerance).await {
            Ok(findings) => findings.into_iter().chain(self.of_routes(admin).await).collect(),
            Err(error) => vec![store_unavailable::failed(error)],
        }
    }

    async fn of_routes(&self, admin: &dyn Admin) -> Vec<Finding> {
        if self.routes.is_empty() {
            return Vec::new();
        }
        routes::check(admin, &self.routes)
            .await
            .unwrap_or_else(|error| vec![store_unavailable::failed(error)])
    }
}
