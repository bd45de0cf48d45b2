//! The route table of a running outbox: checked routes, ready for lookups.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Matcher, ParkReason, Route};
use crate::config::{Problem, ProblemKind};
use crate::destination::{Destination, OnTimeout, Profile};
use crate::event::Event;

/// Looks up the route of an event. A route is identified by its index. Events without a route have the index after the
/// last: [`unroutable`](Self::unroutable).
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    entries: Vec<RouteEntry>,
    exact: HashMap<Box<str>, TypeRoutes>,
    patterns: Vec<Pattern>,
    fallback: Choices,
}

/// Routes of one event type.
#[derive(Debug, Default)]
struct TypeRoutes {
    of_aggregates: HashMap<Box<str>, Choices>,
    of_all: Choices,
}

/// A route by pattern. Patterns are tried in the order of registration.
#[derive(Debug)]
struct Pattern {
    text: Box<str>,
    tenant: Option<Box<str>>,
    route: usize,
}

/// Routes of the same events that differ in their tenants only. The one for all tenants comes last.
#[derive(Debug, Default)]
struct Choices {
    of_tenants: Vec<(Box<str>, usize)>,
    of_all: Option<usize>,
}

impl Choices {
    /// Adds a route. Returns `false` if there is one for the same tenants.
    fn add(&mut self, tenant: Option<&str>, route: usize) -> bool {
        let Some(tenant) = tenant else { return self.of_all.replace(route).is_none() };
        let fresh = self.of_tenants.iter().all(|(other, _)| **other != *tenant);
        self.of_tenants.push((tenant.into(), route));
        fresh
    }

    fn find(&self, tenant: Option<&str>) -> Option<usize> {
        let of_tenant = self.of_tenants.iter().find(|(pattern, _)| takes(pattern, tenant));
        of_tenant.map(|&(_, route)| route).or(self.of_all)
    }
}

impl TypeRoutes {
    fn choices(&mut self, aggregate_type: Option<&str>) -> &mut Choices {
        match aggregate_type {
            Some(name) => self.of_aggregates.entry(name.into()).or_default(),
            None => &mut self.of_all,
        }
    }

    fn find(&self, aggregate_type: &str, tenant: Option<&str>) -> Option<usize> {
        let of_aggregate = self.of_aggregates.get(aggregate_type);
        of_aggregate.and_then(|choices| choices.find(tenant)).or_else(|| self.of_all.find(tenant))
    }
}

/// One route of a running outbox.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    pub(crate) name: String,
    pub(crate) targets: Vec<RouteTarget>,
    pub(crate) concurrency: usize,
    pub(crate) rate: Option<f64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) batch: usize,
}

/// A destination with its name within a fan-out.
pub(crate) struct RouteTarget {
    pub(crate) name: String,
    pub(crate) destination: Arc<dyn Destination>,
    pub(crate) profile: Profile,
}

impl RouteTarget {
    pub(super) fn new(name: impl Into<String>, destination: impl Destination) -> Self {
        // Called once, because the engine must not depend on a profile that changes.
        let profile = destination.profile();
        Self { name: name.into(), destination: Arc::new(destination), profile }
    }
}

impl fmt::Debug for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl RouteEntry {
    /// How long a delivery to this target may take.
    pub(crate) fn timeout_of(
        &self,
        target: &RouteTarget,
        handler: Duration,
        publisher: Duration,
    ) -> Duration {
        self.timeout.unwrap_or(match target.profile.on_timeout {
            OnTimeout::Retry => handler,
            OnTimeout::Unreachable => publisher,
        })
    }
}

impl RouteTable {
    /// The routes must have been [checked](problems).
    pub(super) fn new(routes: Vec<Route>) -> Self {
        let mut table = Self::default();
        for (index, route) in routes.into_iter().enumerate() {
            table.index(index, &route);
            table.entries.push(entry(route));
        }
        table
    }

    /// The route of an event, by index.
    pub(crate) fn find(&self, event: &Event) -> usize {
        let tenant = event.tenant_id();
        let exact = self.exact.get(event.event_type());
        exact
            .and_then(|routes| routes.find(event.aggregate_type(), tenant))
            .or_else(|| self.find_pattern(event))
            .or_else(|| self.fallback.find(tenant))
            .unwrap_or(self.unroutable())
    }

    /// The index of events without a route.
    pub(crate) fn unroutable(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[RouteEntry] {
        &self.entries
    }

    /// The route at an index; `None` for events without a route.
    pub(crate) fn get(&self, index: usize) -> Option<&RouteEntry> {
        self.entries.get(index)
    }

    fn find_pattern(&self, event: &Event) -> Option<usize> {
        if self.patterns.is_empty() {
            return None;
        }
        let text = format!("{}:{}", event.aggregate_type(), event.event_type());
        let of_tenant = |pattern: &&Pattern| {
            pattern.tenant.as_deref().is_none_or(|tenant| takes(tenant, event.tenant_id()))
        };
        let mut fitting = self.patterns.iter().filter(|pattern| matches_pattern(&pattern.text, &text));
        fitting.find(of_tenant).map(|pattern| pattern.route)
    }

    /// Indexes what the route at this index matches. Returns `false` if another route matches the same.
    fn index(&mut self, index: usize, route: &Route) -> bool {
        let tenant = route.tenant.as_deref();
        match &route.matcher {
            Matcher::Exact { aggregate_type, event_type } => {
                let routes = self.exact.entry(event_type.clone()).or_default();
                routes.choices(aggregate_type.as_deref()).add(tenant, index)
            }
            Matcher::Pattern(text) => {
                let same = |other: &Pattern| other.text == *text && other.tenant == route.tenant;
                let fresh = !self.patterns.iter().any(same);
                self.patterns.push(Pattern {
                    text: text.clone(),
                    tenant: route.tenant.clone(),
                    route: index,
                });
                fresh
            }
            Matcher::Fallback => self.fallback.add(tenant, index),
        }
    }
}

/// Everything that is wrong with these routes.
pub(super) fn problems(routes: &[Route]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut table, mut names) = (RouteTable::default(), HashSet::new());
    for (index, route) in routes.iter().enumerate() {
        let name = route.full_name();
        let setting = format!("routes.{name:?}");
        check(route, &name, &setting, &mut problems);
        if !table.index(index, route) {
            let advice = "another route takes the same events: remove one of them";
            problems.push(Problem::new(&setting, advice).of_kind(ProblemKind::SameEvents));
        } else if !names.insert(name) {
            let advice = "another route has the same name: rename one of them";
            problems.push(Problem::new(&setting, advice).of_kind(ProblemKind::SameName));
        }
    }
    problems
}

fn entry(route: Route) -> RouteEntry {
    let liked = route.targets.iter().map(|target| target.profile.batch).min();
    let batch = route.batch.or(liked).unwrap_or(1);
    // All events of a batch start together, so it must not be larger than the events of one second.
    let most = route.rate.map_or(usize::MAX, |rate| (rate.ceil() as usize).max(1));
    RouteEntry {
        name: route.full_name(),
        concurrency: route.concurrency.unwrap_or(usize::MAX),
        rate: route.rate,
        timeout: route.timeout,
        batch: batch.min(most),
        targets: route.targets,
    }
}

/// The most events per delivery.
const MAX_BATCH_EVENTS: usize = 10_000;

fn check(route: &Route, name: &str, setting: &str, problems: &mut Vec<Problem>) {
    let mut add_if = |wrong: bool, advice: &str| {
        if wrong {
            problems.push(Problem::new(setting, advice).of_kind(ProblemKind::Route));
        }
    };
    add_if(
        name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control),
        "a route's name must be 1 to 200 characters without control characters",
    );
    add_if(
        route.tenant.as_ref().is_some_and(|tenant| tenant.is_empty()),
        "an empty tenant matches nothing: leave it out, or write a pattern",
    );
    match ParkReason::parse(name) {
        ParkReason::Route(_) => {}
        ParkReason::NoRoute => add_if(true, "this name is for events without a route: choose another"),
        ParkReason::Suspect => {
            add_if(true, "this name is for events that end their processes: choose another");
        }
        ParkReason::Probed(_) => {
            add_if(true, "this ending is for events that were probes of a route: remove it");
        }
    }
    for mistake in &route.mistakes {
        add_if(true, mistake);
    }
    let one_by_one = route.targets.iter().any(|target| target.profile.batch == 1);
    add_if(
        one_by_one && route.batch.is_some_and(|n| n > 1),
        "its destination takes one event at a time: leave out `batch`",
    );
    let distinct: HashSet<_> = route.targets.iter().map(|target| &target.name).collect();
    add_if(distinct.len() < route.targets.len(), "two destinations of this fan-out have the same name");
    add_if(
        route.targets.iter().any(|target| target.name.is_empty() || target.name.chars().count() > 64),
        "the name of a fan-out's destination must be 1 to 64 characters",
    );
    add_if(
        route.targets.iter().any(|target| target.name.chars().any(char::is_control)),
        "the name of a fan-out's destination must not contain control characters",
    );
    add_if(
        route.targets.iter().any(|target| !(1..=MAX_BATCH_EVENTS).contains(&target.profile.batch)),
        "the batch size of its destination must be between 1 and 10000 events",
    );
    add_if(route.concurrency == Some(0), "concurrency is 0: pause the route instead");
    add_if(route.batch.is_some_and(|n| n == 0 || n > MAX_BATCH_EVENTS), "batch must be between 1 and 10000");
    add_if(
        route.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)),
        "rate must be a number above zero",
    );
    add_if(
        route.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > Duration::from_secs(24 * 3600)),
        "timeout must be longer than zero and at most a day",
    );
    if route.targets.is_empty() {
        let advice = "has no destination: call `deliver_to`";
        problems.push(Problem::new(setting, advice).of_kind(ProblemKind::NoDestination));
    }
}

/// Whether a route for the tenants that match `pattern` takes an event of this tenant.
fn takes(pattern: &str, tenant: Option<&str>) -> bool {
    tenant.is_some_and(|tenant| matches_pattern(pattern, tenant))
}

/// Whether a text matches a pattern, in which `*` matches any text.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("Order:*", "Order:Placed", true),
            ("Order:*", "Orders:Placed", false),
            ("*:*Deleted", "User:AccountDeleted", true),
            ("*:*Deleted", "User:DeletedAccount", false),
            ("*", "anything:at all", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*a", "a", false),
            ("Order:Placed", "Order:Placed", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
