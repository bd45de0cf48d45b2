//! Checks routes with the engine's own checks, and finds the key that each problem is about.

use std::collections::{HashMap, HashSet};

use posthaste::config::{Problem, ProblemKind};
use posthaste::{Config, Routes};

use super::known_keys::names;
use super::route::{ROUTE, ReadRoute};

pub(super) fn check(routes: &[ReadRoute<'_, '_>]) {
    routes.iter().for_each(check_alone);
    // A route with an invalid pattern is left out: it is unknown which events it would take.
    let is_clear = |read: &&ReadRoute<'_, '_>| {
        ["aggregate", "event", "tenant"].iter().all(|key| !read.section.concerns(key))
    };
    check_together(&routes.iter().filter(is_clear).collect::<Vec<_>>());
}

/// Reports the engine's problems of one route on its own.
fn check_alone(ReadRoute { config, section, destinations }: &ReadRoute<'_, '_>) {
    for Problem { kind, advice, .. } in problems(&Routes::new().add(config.to(destinations))) {
        // Reported at `publish` already.
        if kind == ProblemKind::NoDestination {
            continue;
        }
        let word = |key: &str| advice.split(|c: char| !c.is_alphanumeric()).any(|word| word == key);
        match names(ROUTE).into_iter().find(|key| word(key) && section.get(key).is_some()) {
            Some(key) => section.wrong(key, advice),
            None => section.wrong("", advice),
        }
    }
}

/// Reports routes that conflict with each other. A route that takes the same events as another one usually has the same
/// default name too: that counts as one mistake.
fn check_together(routes: &[&ReadRoute<'_, '_>]) {
    let mut names = HashMap::new();
    let clashing = same_events(routes);
    for (index, ReadRoute { config, section, .. }) in routes.iter().enumerate() {
        let before = names.insert(&config.name, section);
        if clashing.contains(&setting(index)) {
            section.wrong("", "another route takes the same events: remove one of them");
        } else if let Some(before) = before {
            section.wrong("", format!("{} has the same name: rename one of them", before.setting("")));
        }
    }
}

/// The routes that take the same events as an earlier one, according to the engine. Each route is named by its index
/// for this check, so the result has the names that [`setting`] returns.
fn same_events(routes: &[&ReadRoute<'_, '_>]) -> HashSet<String> {
    let named = routes.iter().enumerate().map(|(index, read)| {
        let route = read.config.to(&read.destinations);
        route.name(index.to_string())
    });
    let problems = problems(&named.fold(Routes::new(), Routes::add));
    let clashing = problems.into_iter().filter(|problem| problem.kind == ProblemKind::SameEvents);
    clashing.map(|problem| problem.setting).collect()
}

/// The name of a setting in the engine's problems, for a route that is named by its index.
fn setting(index: usize) -> String {
    format!("routes.\"{index}\"")
}

fn problems(routes: &Routes) -> Vec<Problem> {
    routes.check(&Config::default()).err().map_or_else(Vec::new, |error| error.problems)
}
