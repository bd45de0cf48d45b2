//! Checks routes as the engine does, and finds the keys that its problems are about.

use std::collections::{HashMap, HashSet};

use posthaste::config::Problem;
use posthaste::{Config, Routes};

use super::known_keys::names;
use super::route::{ROUTE, ReadRoute};

pub(super) fn check(routes: &[ReadRoute<'_, '_>]) {
    routes.iter().for_each(check_alone);
    // What a wrong pattern would match is not known.
    let is_clear = |read: &&ReadRoute<'_, '_>| {
        ["aggregate", "event", "tenant"].iter().all(|key| !read.section.concerns(key))
    };
    check_together(&routes.iter().filter(is_clear).collect::<Vec<_>>());
}

/// What the engine has to say of a route, whatever the others are.
fn check_alone(ReadRoute { config, section, destinations }: &ReadRoute<'_, '_>) {
    for Problem { advice, .. } in problems(&Routes::new().add(config.to(destinations))) {
        // It is told of `publish` already.
        if destinations.is_empty() && advice.contains("destination") {
            continue;
        }
        let word = |key: &str| advice.split(|c: char| !c.is_alphanumeric()).any(|word| word == key);
        match names(ROUTE).into_iter().find(|key| word(key) && section.get(key).is_some()) {
            Some(key) => section.wrong(key, advice),
            None => section.wrong_itself(advice),
        }
    }
}

/// What is wrong with routes because of others. A route that takes the same events as another may well have
/// its name too: that is one mistake.
fn check_together(routes: &[&ReadRoute<'_, '_>]) {
    let mut names = HashMap::new();
    let clashing = same_events(routes);
    for (index, ReadRoute { config, section, .. }) in routes.iter().enumerate() {
        let before = names.insert(&config.name, section);
        if clashing.contains(&setting(index)) {
            section.wrong_itself("another route takes the same events: remove one of them");
        } else if let Some(before) = before {
            section.wrong_itself(format!("{} has the same name: rename one of them", before.setting("")));
        }
    }
}

/// The routes that the engine says take the same events as one before them, by [`setting`]. They are given names by
/// which they can be told apart.
fn same_events(routes: &[&ReadRoute<'_, '_>]) -> HashSet<String> {
    let named = routes.iter().enumerate().map(|(index, read)| {
        let route = read.config.to(&read.destinations);
        route.name(index.to_string())
    });
    let problems = problems(&named.fold(Routes::new(), Routes::add));
    let clashing = problems.into_iter().filter(|problem| problem.advice.starts_with("another route"));
    clashing.map(|problem| problem.setting).collect()
}

/// What the engine calls a route whose name is its index.
fn setting(index: usize) -> String {
    format!("routes.\"{index}\"")
}

fn problems(routes: &Routes) -> Vec<Problem> {
    routes.check(&Config::default()).err().map_or_else(Vec::new, |error| error.problems)
}
