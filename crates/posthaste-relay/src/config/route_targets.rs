//! Reads the targets of a route: `publish`, `format` and `webhook`.

use std::sync::Arc;

use posthaste::{Destination, Recorder};
use posthaste_publishers::Format;
use posthaste_stores::SecretUrl;

use super::section::Section;
use super::target::{FORMATS, Target};
use super::toml_tree::Node;
use super::webhook::{WebhookConfig, webhook};

/// A target with its destination. If the target is invalid, a stand-in takes the place of the destination, so that the
/// rest of the route can be checked.
type Built = (Target, Arc<dyn Destination>);

/// The settings that all targets of a route share.
struct Shared {
    format: Option<Format>,
    webhook: Option<WebhookConfig>,
    /// `allow_http` or `allow_networks` is invalid, so it is unknown whether a webhook's URL is allowed.
    is_unsure: bool,
}

/// The targets of a route, each with its destination.
pub(super) fn publish(route: &Section<'_, '_>) -> Vec<Built> {
    let table = route.section("webhook");
    let is_unsure =
        |table: &Section<'_, '_>| table.concerns("allow_http") || table.concerns("allow_networks");
    let shared = Shared {
        format: route.word("format", FORMATS),
        webhook: table.clone().map(webhook),
        is_unsure: table.as_ref().is_some_and(is_unsure),
    };
    let built = targets(route, &shared);
    let has_webhook = built.iter().any(|(target, _)| target.is_webhook());
    if shared.webhook.is_some() && !has_webhook && !route.concerns("publish") {
        route.wrong("webhook", "is for https URLs, and this route has none: leave it out");
    }
    built
}

fn targets(route: &Section<'_, '_>, shared: &Shared) -> Vec<Built> {
    let Some(node) = route.get("publish") else {
        let what = "is missing: write where the events go, as in publish = \"kafka://host:9092/topic\"";
        route.missing("publish", what);
        return Vec::new();
    };
    let Some(table) = route.within("publish", node) else {
        return shared.target(route, "publish", None, node).into_iter().collect();
    };
    let entries = table.entries();
    if entries.is_empty() {
        route.wrong("publish", "is empty: write NAME = \"URL\" for each destination");
    }
    entries.into_iter().filter_map(|(name, node)| shared.target(&table, name, Some(name), node)).collect()
}

impl Shared {
    /// The target whose URL is the value of this key.
    fn target(
        &self,
        section: &Section<'_, '_>,
        key: &str,
        name: Option<&str>,
        node: &Node<'_>,
    ) -> Option<Built> {
        let Some(url) = section.text_of(node) else {
            section.add(&node.span(), key, "must be a URL in quotes, or a table of NAME = \"URL\"");
            return None;
        };
        let mut target = Target::new(SecretUrl::new(url));
        (target.name, target.format) = (name.map(str::to_owned), self.format);
        if target.is_webhook() {
            target.webhook.clone_from(&self.webhook);
        }
        let destination = destination(&target).unwrap_or_else(|what| {
            if !(self.is_unsure && target.is_webhook()) {
                section.add(&node.span(), key, what);
            }
            Arc::new(Recorder::new())
        });
        Some((target, destination))
    }
}

/// The publisher. The error names the keys of the configuration instead of the methods of the builder.
fn destination(target: &Target) -> Result<Arc<dyn Destination>, String> {
    if target.says_format_twice() {
        return Err("the route and the URL both set the format: leave one of them out".to_owned());
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
