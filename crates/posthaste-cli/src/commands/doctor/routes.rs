//! Checks that the routes of a configuration match the contents of its store.

use std::collections::BTreeMap;

use posthaste::admin::{Admin, BacklogBy, Filter, Finding, PageRequest, ParkReason};
use posthaste::{Status, StoreError};

use posthaste_relay::config::RouteConfig;

pub(super) async fn check(admin: &dyn Admin, routes: &[RouteConfig]) -> Result<Vec<Finding>, StoreError> {
    let stats = admin.stats().await?;
    let is_known = |name: &str| routes.iter().any(|route| route.name == name);
    let mut findings: Vec<Finding> =
        stats.paused.iter().filter(|route| !is_known(route)).map(|route| paused_in_vain(route)).collect();
    for group in admin.backlog(BacklogBy::Type, PageRequest::MAX_LIMIT).await?.groups {
        let types = group.key.unwrap_or_default();
        if !routes.iter().any(|route| route.takes(&types)) {
            findings.push(without_route(&types, group.count));
        }
    }
    if stats.parked > 0 {
        let parked = parked(admin).await?.into_iter().filter(|(route, _)| !is_known(route));
        findings.extend(parked.map(|(route, count)| without_destination(&route, count)));
    }
    Ok(findings)
}

/// Counts the events that are parked for each route, among those that have been pending longest.
async fn parked(admin: &dyn Admin) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for status in [Status::New, Status::Retry] {
        let page = PageRequest::first(PageRequest::MAX_LIMIT);
        for row in admin.list(&Filter::status(status), &page).await?.items {
            let route = row.parked.as_deref().and_then(|parked| ParkReason::parse(parked).route());
            if let Some(route) = route {
                *counts.entry(route.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

fn without_destination(route: &str, count: u64) -> Finding {
    Finding::warning(
        "route-without-destination",
        format!(
            "events that wait for the route {route:?}, which has no destination because it is not in this \
             configuration: {count}"
        ),
        "write the route into the configuration again; if it was renamed, wait: the events are checked again after a \
         while and then take the route of their type",
    )
}

fn without_route(types: &str, count: u64) -> Finding {
    Finding::warning(
        "type-without-route",
        format!("events of type {types:?} that no route of this configuration takes: {count}"),
        "add a route for the type, or one for everything: after `no_route_grace` they are DEAD",
    )
}

fn paused_in_vain(route: &str) -> Finding {
    Finding::warning(
        "unknown-paused-route",
        format!(
            "{route:?} is paused, but no route of this configuration has that name, so the pause has no effect"
        ),
        format!("check the name, then run posthaste resume {route:?}"),
    )
}
