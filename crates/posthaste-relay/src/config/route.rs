//! Reads the routes of an outbox, and makes routes of the engine of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::matches_pattern;
use posthaste::config::Problem;
use posthaste::{Config, Destination, MemoryStore, Outbox, Recorder, Route, Routes};
use posthaste_publishers::Format;
use toml::de::DeValue;

use super::problem_collector::ProblemCollector;
use super::section::{Section, text_of};
use super::source_text::Span;
use super::target::FORMATS;
use super::tree::Node;
use super::webhook::webhook;
use super::{RouteConfig, Target, WebhookConfig};
use posthaste_stores::SecretUrl;

/// A route that was read, where its keys stand, and its destinations; stand-ins for those that are wrong.
struct ReadRoute {
    config: RouteConfig,
    path: String,
    span: Span,
    places: Vec<(&'static str, Span)>,
    destinations: Vec<Arc<dyn Destination>>,
}

impl RouteConfig {
    /// The engine's route to these destinations, one for each of `publish`.
    pub fn to(&self, destinations: &[Arc<dyn Destination>]) -> Route {
        let mut route = self.matching().name(&self.name);
        for (target, destination) in self.publish.iter().zip(destinations) {
            route = match &target.name {
                Some(name) => route.fan_out_to(name, Arc::clone(destination)),
                None => route.deliver_to(Arc::clone(destination)),
            };
        }
        if let Some(concurrency) = self.concurrency {
            route = route.concurrency(concurrency);
        }
        if let Some(rate) = self.rate {
            route = route.rate(rate);
        }
        if let Some(timeout) = self.timeout {
            route = route.timeout(timeout);
        }
        if let Some(batch) = self.batch {
            route = route.batch(batch);
        }
        route
    }

    /// Whether it takes events of this `aggregate_type:event_type`, of some tenants at least.
    pub fn takes(&self, types: &str) -> bool {
        matches_pattern(&format!("{}:{}", self.aggregate, self.event), types)
    }

    /// Which events it takes. Exact names are looked up at once, patterns one by one.
    fn matching(&self) -> Route {
        let (aggregate, event) = (self.aggregate.as_str(), self.event.as_str());
        let is_exact = !aggregate.contains('*') && !event.contains('*');
        let route = match (aggregate, event, &self.tenant) {
            ("*", "*", None) => Route::fallback(),
            _ if is_exact => Route::event(event).aggregate(aggregate),
            _ => Route::pattern(format!("{aggregate}:{event}")),
        };
        match &self.tenant {
            Some(tenant) => route.tenant(tenant.as_str()),
            None => route,
        }
    }
}

/// The name of a route that has none: its patterns, as one types them after `--publish`.
pub(super) fn default_name(aggregate: &str, event: &str, tenant: Option<&str>) -> String {
    let separator = if event.contains('.') { ':' } else { '.' };
    let types = match (aggregate, event) {
        ("*", event) if separator == '.' => event.to_owned(),
        (aggregate, event) => format!("{aggregate}{separator}{event}"),
    };
    tenant.map_or_else(|| types.clone(), |tenant| format!("{types}@{tenant}"))
}

pub(super) fn routes(
    problems: &ProblemCollector<'_>,
    path: &str,
    outbox: &Span,
    node: Option<Node<'_>>,
) -> Vec<RouteConfig> {
    let setting = format!("{path}.route");
    let Some(node) = node else {
        let what = format!("is missing: say where events go with [[{setting}]] and publish = \"URL\"");
        problems.missing(outbox, &setting, what);
        return Vec::new();
    };
    let span = node.span();
    let DeValue::Array(nodes) = node.into_inner() else {
        problems.add(&span, &setting, format!("must be a list: write [[{setting}]] with two brackets"));
        return Vec::new();
    };
    if nodes.is_empty() {
        problems.missing(&span, &setting, format!("is empty: say where events go with [[{setting}]]"));
    }
    let read = nodes.into_iter().enumerate();
    let read: Vec<ReadRoute> =
        read.filter_map(|(index, node)| route(problems, format!("{setting}[{index}]"), node)).collect();
    read.iter().for_each(|read| check_alone(problems, read));
    // What a wrong pattern would match is not known.
    let is_clear = |read: &&ReadRoute| {
        ["aggregate", "event", "tenant"].iter().all(|key| !problems.concerns(&format!("{}.{key}", read.path)))
    };
    check_together(problems, &read.iter().filter(is_clear).collect::<Vec<_>>());
    read.into_iter().map(|read| read.config).collect()
}

fn route(problems: &ProblemCollector<'_>, path: String, node: Node<'_>) -> Option<ReadRoute> {
    let span = node.span();
    let DeValue::Table(table) = node.into_inner() else {
        problems.add(&span, &path, "must be a table with publish = \"URL\"");
        return None;
    };
    let mut section = Section::new(problems, path.clone(), span.clone(), table);
    let keys = ["name", "aggregate", "event", "tenant", "rate", "concurrency", "timeout", "batch", "publish"];
    let places = keys.map(|key| (key, section.place(key))).into();
    let aggregate = pattern(&mut section, "aggregate");
    let event = pattern(&mut section, "event");
    let tenant = pattern(&mut section, "tenant");
    let named = section.text("name").map(|(name, _)| name);
    let (concurrency, rate, timeout, batch) = limits(&mut section);
    let options = TargetOptions::read(&mut section);
    let targets = publish(&mut section, &options);
    options.refuse_without_webhook(problems, &path, &targets);
    section.finish();
    let (publish, destinations) = targets.into_iter().unzip();
    let (aggregate, event) = (aggregate.unwrap_or("*".to_owned()), event.unwrap_or("*".to_owned()));
    let name = named.unwrap_or_else(|| default_name(&aggregate, &event, tenant.as_deref()));
    let config = RouteConfig { name, aggregate, event, tenant, publish, concurrency, rate, timeout, batch };
    Some(ReadRoute { config, path, span, places, destinations })
}

fn pattern(section: &mut Section<'_, '_>, key: &'static str) -> Option<String> {
    let (text, span) = section.text(key)?;
    if text.is_empty() || text.chars().any(char::is_control) {
        section.wrong(key, &span, "must be a name, or a pattern in which * stands for any text");
        return None;
    }
    Some(text)
}

type Limits = (Option<usize>, Option<f64>, Option<Duration>, Option<usize>);

fn limits(section: &mut Section<'_, '_>) -> Limits {
    const WHOLE: &str = "a whole number, 1 or more";
    let concurrency = section.value::<usize>("concurrency", WHOLE).map(|(value, _)| value);
    let rate = section.value::<Rate>("rate", "a number of events per second, such as 100 or 0.5");
    let timeout = section.duration("timeout").map(|(value, _)| value);
    let batch = section.value::<usize>("batch", WHOLE).map(|(value, _)| value);
    (concurrency, rate.map(|(rate, _)| rate.number()), timeout, batch)
}

/// TOML tells whole numbers from others.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Rate {
    Whole(i64),
    Number(f64),
}

impl Rate {
    fn number(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Number(number) => number,
        }
    }
}

/// What all destinations of a route share.
struct TargetOptions {
    format: Option<Format>,
    /// And where it stands.
    webhook: Option<(WebhookConfig, Span)>,
    /// What would let a webhook's URL pass is wrong itself, so nothing can be said of the URL.
    is_unsure: bool,
}

impl TargetOptions {
    fn read(section: &mut Section<'_, '_>) -> Self {
        let format = section.word("format", FORMATS);
        let (problems, path) = (section.problems, section.setting("webhook"));
        let webhook = section
            .table("webhook")
            .map(|(table, span)| (webhook(Section::new(problems, path.clone(), span.clone(), table)), span));
        let is_unsure =
            ["allow_http", "allow_networks"].iter().any(|key| problems.concerns(&format!("{path}.{key}")));
        Self { format, webhook, is_unsure }
    }

    fn target(&self, name: Option<String>, url: String) -> Target {
        let mut target = Target { name, url: SecretUrl::new(url), format: self.format, webhook: None };
        if target.is_webhook() {
            target.webhook = self.webhook.as_ref().map(|(webhook, _)| webhook.clone());
        }
        target
    }

    fn refuse_without_webhook(&self, problems: &ProblemCollector<'_>, path: &str, targets: &[Built]) {
        let Some((_, span)) = &self.webhook else { return };
        let has_webhook = targets.iter().any(|(target, _)| target.is_webhook());
        if !has_webhook && !problems.concerns(&format!("{path}.publish")) {
            let what = "is for https URLs, and this route publishes to none: leave it out";
            problems.add(span, &format!("{path}.webhook"), what);
        }
    }
}

type Built = (Target, Arc<dyn Destination>);

fn publish(section: &mut Section<'_, '_>, options: &TargetOptions) -> Vec<Built> {
    let Some(node) = section.take("publish") else {
        let what = "is missing: write where the events go, as in publish = \"kafka://host:9092/topic\"";
        section.problems.missing(&section.span, &section.setting("publish"), what);
        return Vec::new();
    };
    let (span, path) = (node.span(), section.setting("publish"));
    let problems = section.problems;
    let node = match node {
        node if matches!(node.get_ref(), DeValue::Table(_)) => node.into_inner(),
        node => return target(problems, &path, None, node, options).into_iter().collect(),
    };
    let DeValue::Table(table) = node else { return Vec::new() };
    if table.is_empty() {
        problems.add(&span, &path, "is empty: write NAME = \"URL\" for each destination");
    }
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let targets = entries.into_iter().filter_map(|(name, node)| {
        let path = format!("{path}.{}", name.get_ref());
        target(problems, &path, Some(name.get_ref().clone().into_owned()), node, options)
    });
    targets.collect()
}

fn target(
    problems: &ProblemCollector<'_>,
    path: &str,
    name: Option<String>,
    node: Node<'_>,
    options: &TargetOptions,
) -> Option<Built> {
    let span = node.span();
    let Some(url) = text_of(node, problems) else {
        problems.add(&span, path, "must be a URL in quotes, or a table of NAME = \"URL\"");
        return None;
    };
    let target = options.target(name, url);
    let destination = destination(&target).unwrap_or_else(|what| {
        if !(options.is_unsure && target.is_webhook()) {
            problems.add(&span, path, what);
        }
        Arc::new(Recorder::new())
    });
    Some((target, destination))
}

/// The publisher, or what is wrong in the words of a configuration.
fn destination(target: &Target) -> Result<Arc<dyn Destination>, String> {
    if target.says_format_twice() {
        return Err("the route and the URL both say the format: leave one of them out".to_owned());
    }
    if target.is_in_the_clear() {
        return Err("http sends events in the clear: write https, or allow it in a configuration file with \
                    webhook.allow_http = true below the route"
            .to_owned());
    }
    match target.publisher() {
        Ok(publisher) => Ok(publisher),
        Err(error) => Err(error.to_string()),
    }
}

/// What the engine has to say of a route, whatever the others are.
fn check_alone(problems: &ProblemCollector<'_>, read: &ReadRoute) {
    for Problem { advice, .. } in refused(Routes::new().add(read.route())) {
        // It is told of `publish` already.
        if read.destinations.is_empty() && advice.contains("destination") {
            continue;
        }
        let word = |key: &str| advice.split(|c: char| !c.is_alphanumeric()).any(|word| word == key);
        let found = read.places.iter().find(|(key, place)| word(key) && *place != read.span);
        let (setting, place) = match found {
            Some((key, place)) => (format!("{}.{key}", read.path), place),
            None => (read.path.clone(), &read.span),
        };
        problems.add(place, &setting, advice);
    }
}

/// What is wrong with routes because of others. A route that takes the same events as another may well have
/// its name too: that is one mistake.
fn check_together(problems: &ProblemCollector<'_>, read: &[&ReadRoute]) {
    let mut names = HashMap::new();
    let clashing = same_events(read);
    for (index, later) in read.iter().enumerate() {
        let before = names.insert(&later.config.name, &later.path);
        if clashing.contains(&index) {
            let what = "another route takes the same events: remove one of them";
            problems.add(&later.span, &later.path, what);
        } else if let Some(before) = before {
            let what = format!("{before} has the same name: rename one of them");
            problems.add(&later.span, &later.path, what);
        }
    }
}

/// The routes that the engine says take the same events as one before them. They are given names by which
/// they can be told apart.
fn same_events(read: &[&ReadRoute]) -> HashSet<usize> {
    let named = |index: usize| format!("#{index}");
    let routes = read.iter().enumerate().map(|(index, read)| read.route().name(named(index)));
    let refused = refused(routes.fold(Routes::new(), Routes::add));
    let clashing = refused.iter().filter(|problem| problem.advice.starts_with("another route"));
    let clashing: HashSet<&str> = clashing.map(|problem| problem.setting.as_str()).collect();
    (0..read.len())
        .filter(|index| clashing.contains(format!("routes.{:?}", named(*index)).as_str()))
        .collect()
}

impl ReadRoute {
    fn route(&self) -> Route {
        self.config.to(&self.destinations)
    }
}

/// What an outbox with these routes would be refused for.
fn refused(routes: Routes) -> Vec<Problem> {
    match Outbox::from_config(MemoryStore::new(), Config::default(), routes).build() {
        Ok(_) => Vec::new(),
        Err(error) => error.problems,
    }
}
