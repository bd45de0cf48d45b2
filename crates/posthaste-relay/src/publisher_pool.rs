//! Publisher pool: one publisher per target, shared by all routes that have the same target, and kept when a new
//! configuration has it too.

use std::sync::Arc;

use futures_util::future::join_all;
use posthaste::{Destination, Route, Routes};
use posthaste_publishers::{CheckError, Publisher, PublisherError};
use posthaste_stores::SecretUrl;

use crate::config::{RouteConfig, Target};

/// The publishers of one outbox, by their targets. The targets have no names here, so that two routes that name the
/// same target differently share a publisher.
#[derive(Clone, Default)]
pub(crate) struct Destinations(Vec<(Target, Arc<dyn Publisher>)>);

impl Destinations {
    /// Builds the routes of an outbox. Publishers in `before` are reused with their connections. Those that no route
    /// names any more are dropped together with `before`.
    pub(crate) fn routes(routes: &[RouteConfig], before: &Self) -> Result<(Routes, Self), PublisherError> {
        let mut destinations = Self::default();
        let mut all = Routes::new();
        for route in routes {
            all = all.add(destinations.route(route, before)?);
        }
        Ok((all, destinations))
    }

    /// Connects to every destination; returns those that cannot be reached, with the reason. The URLs print without
    /// their secrets.
    pub(crate) async fn unreached(&self) -> Vec<(SecretUrl, CheckError)> {
        let checks = self.0.iter().map(async |(target, publisher)| {
            let why = publisher.check().await.err()?;
            Some((target.url.clone(), why))
        });
        join_all(checks).await.into_iter().flatten().collect()
    }

    fn route(&mut self, config: &RouteConfig, before: &Self) -> Result<Route, PublisherError> {
        let destinations = config.publish.iter().map(|target| self.destination(target, before));
        Ok(config.to(&destinations.collect::<Result<Vec<_>, _>>()?))
    }

    fn destination(
        &mut self,
        target: &Target,
        before: &Self,
    ) -> Result<Arc<dyn Destination>, PublisherError> {
        let target = target.nameless();
        if let Some(known) = self.get(&target) {
            return Ok(known);
        }
        let publisher = before.get(&target).map_or_else(|| target.publisher(), Ok)?;
        self.0.push((target, Arc::clone(&publisher)));
        Ok(publisher)
    }

    fn get(&self, target: &Target) -> Option<Arc<dyn Publisher>> {
        let known = self.0.iter().find(|(known, _)| known == target);
        known.map(|(_, publisher)| Arc::clone(publisher))
    }
}

/// Shows only the number: the URLs are secrets.
impl std::fmt::Debug for Destinations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} destinations", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebhookConfig;

    fn route(name: Option<&str>, url: &str, webhook: Option<WebhookConfig>) -> RouteConfig {
        let mut target = Target::new(SecretUrl::new(url));
        (target.name, target.webhook) = (name.map(str::to_owned), webhook);
        RouteConfig { name: url.to_owned(), ..RouteConfig::new(vec![target]) }
    }

    fn built(routes: &[RouteConfig], before: &Destinations) -> Destinations {
        Destinations::routes(routes, before).expect("good settings").1
    }

    #[test]
    fn publishers_are_shared_by_routes_and_reused_by_the_next_configuration() {
        let url = "https://h.example/";
        let before = built(&[route(None, url, None), route(Some("a"), url, None)], &Destinations::default());
        assert_eq!(before.0.len(), 1);
        let after = built(&[route(Some("b"), url, None), route(None, "stdout:", None)], &before);
        assert_eq!(after.0.len(), 2);
        assert!(Arc::ptr_eq(&after.0[0].1, &before.0[0].1));
    }

    #[test]
    fn different_webhook_settings_need_different_publishers() {
        let url = "https://h.example/";
        let before = built(&[route(None, url, None)], &Destinations::default());
        let other = WebhookConfig { requests: Some(2), ..WebhookConfig::default() };
        let after = built(&[route(None, url, Some(other.clone())), route(None, url, None)], &before);
        assert_eq!(after.0.len(), 2);
        assert!(!Arc::ptr_eq(&after.0[0].1, &before.0[0].1));
        assert!(Arc::ptr_eq(&after.0[1].1, &before.0[0].1));
    }
}
