//! Checks of the destinations of routes.

use futures_util::future::join_all;
use posthaste::admin::Finding;

use super::report::DestinationFindings;
use posthaste_relay::config::{RouteConfig, Target};

/// Each destination is checked once, even if several routes lead to it.
pub(super) async fn check(routes: &[RouteConfig]) -> DestinationFindings {
    let mut targets: Vec<(Target, Vec<&str>)> = Vec::new();
    for route in routes {
        for target in route.publish.iter().map(Target::nameless) {
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, names)) => names.push(&route.name),
                None => targets.push((target, vec![&route.name])),
            }
        }
    }
    let findings = join_all(targets.iter().map(|(target, routes)| examine(target, routes))).await;
    DestinationFindings { count: targets.len(), findings: findings.into_iter().flatten().collect() }
}

async fn examine(target: &Target, routes: &[&str]) -> Vec<Finding> {
    let findings = match target.publisher() {
        Ok(publisher) => publisher.diagnose().await,
        // The configuration was checked, but a file that it names may have been removed since.
        Err(error) => vec![Finding::problem(
            "destination-unusable",
            error.to_string(),
            "see what posthaste config check says",
        )],
    };
    let place = place(target, routes);
    findings
        .into_iter()
        .map(|mut finding| {
            finding.what = format!("{place}: {}", finding.what);
            finding
        })
        .collect()
}

/// Names the routes and the destination. The URL is printed without its secrets.
fn place(target: &Target, routes: &[&str]) -> String {
    let names: Vec<String> = routes.iter().map(|route| format!("{route:?}")).collect();
    let route = if routes.len() == 1 { "the route" } else { "the routes" };
    format!("{route} {} to {}", names.join(", "), target.url)
}
