//! Reads the routes of an outbox, and builds the engine's routes from them.

use std::sync::Arc;

use posthaste::{Destination, Route};
use toml::de::DeValue;

use super::RouteConfig;
use super::known_keys::Keys;
use super::known_keys::Sensitivity::{Container, Hidden, Public};
use super::optional_setting::set;
use super::route_targets::publish;
use super::section::Section;

pub(super) const ROUTE: Keys = &[
    (Public, &["aggregate", "event", "tenant", "name", "concurrency", "rate", "timeout", "batch", "format"]),
    (Container, &["webhook"]),
    (Hidden, &["publish"]),
];

/// A route that was read, with its destinations. Stand-ins take the place of invalid destinations.
pub(super) struct ReadRoute<'r, 'i> {
    pub(super) config: RouteConfig,
    pub(super) section: Section<'r, 'i>,
    pub(super) destinations: Vec<Arc<dyn Destination>>,
}

impl RouteConfig {
    /// Builds the engine's route. There must be one destination for each target of `publish`, in the same order.
    pub(crate) fn to(&self, destinations: &[Arc<dyn Destination>]) -> Route {
        let mut route = self.matching().name(&self.name);
        for (target, destination) in self.publish.iter().zip(destinations) {
            route = match &target.name {
                Some(name) => route.fan_out_to(name, Arc::clone(destination)),
                None => route.deliver_to(Arc::clone(destination)),
            };
        }
        let route = set(route, self.concurrency, Route::concurrency);
        let route = set(route, self.rate, Route::rate);
        let route = set(route, self.timeout, Route::timeout);
        set(route, self.batch, Route::batch)
    }

    /// Whether it takes events of this `aggregate_type:event_type`, at least for some tenants.
    pub fn takes(&self, types: &str) -> bool {
        self.matching().takes(types)
    }

    /// The engine's route without destinations. Exact names use the engine's lookup table; patterns are tried one by
    /// one.
    fn matching(&self) -> Route {
        let (aggregate, event) = (self.aggregate.as_str(), self.event.as_str());
        let is_exact = !aggregate.contains('*') && !event.contains('*');
        let route = match (aggregate, event, &self.tenant) {
            ("*", "*", None) => Route::fallback(),
            _ if is_exact => Route::event(event).aggregate(aggregate),
            _ => Route::pattern(format!("{aggregate}:{event}")),
        };
        set(route, self.tenant.as_deref(), Route::tenant)
    }
}

/// The default name of a route: its pattern, written like the PATTERN of the option `--publish PATTERN=URL`.
pub(super) fn default_name(aggregate: &str, event: &str, tenant: Option<&str>) -> String {
    let separator = if event.contains('.') { ':' } else { '.' };
    let types = match (aggregate, event) {
        ("*", event) if separator == '.' => event.to_owned(),
        (aggregate, event) => format!("{aggregate}{separator}{event}"),
    };
    tenant.map_or_else(|| types.clone(), |tenant| format!("{types}@{tenant}"))
}

pub(super) fn routes<'r, 'i>(outbox: &Section<'r, 'i>) -> Vec<ReadRoute<'r, 'i>> {
    let path = outbox.setting("route");
    let Some(node) = outbox.get("route") else {
        let what = format!("is missing: say where events go with [[{path}]] and publish = \"URL\"");
        outbox.missing("route", what);
        return Vec::new();
    };
    let DeValue::Array(nodes) = node.get_ref() else {
        outbox.wrong("route", format!("must be a list: write [[{path}]] with two brackets"));
        return Vec::new();
    };
    if nodes.is_empty() {
        let what = format!("is empty: say where events go with [[{path}]]");
        outbox.problems.missing(&node.span(), &path, what);
    }
    let read = nodes.iter().enumerate().filter_map(|(index, node)| {
        let key = format!("route[{index}]");
        let section = outbox.within(&key, node);
        if section.is_none() {
            outbox.add(&node.span(), &key, "must be a table with publish = \"URL\"");
        }
        section.map(route)
    });
    read.collect()
}

fn route<'r, 'i>(section: Section<'r, 'i>) -> ReadRoute<'r, 'i> {
    const WHOLE: &str = "a whole number, 1 or more";
    let section = section.only(ROUTE);
    let (publish, destinations) = publish(&section).into_iter().unzip();
    let aggregate = section.parse("aggregate", pattern).unwrap_or("*".to_owned());
    let event = section.parse("event", pattern).unwrap_or("*".to_owned());
    let tenant = section.parse("tenant", pattern);
    let name = section.text("name").unwrap_or_else(|| default_name(&aggregate, &event, tenant.as_deref()));
    let config = RouteConfig {
        name,
        aggregate,
        event,
        tenant,
        publish,
        concurrency: section.value("concurrency", WHOLE),
        rate: section.value("rate", "a number of events per second, such as 100 or 0.5"),
        timeout: section.duration("timeout"),
        batch: section.value("batch", WHOLE),
    };
    ReadRoute { config, section, destinations }
}

fn pattern(text: String) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("must be a name, or a pattern in which * stands for any text".to_owned());
    }
    Ok(text)
}
