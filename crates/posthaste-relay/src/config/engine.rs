//! Reads the settings of an outbox's engine, merged over the defaults of a relay.

use posthaste::{Config, Mode};
use posthaste_sqlx::Layout;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::foreign_layout;
use super::known_keys::Sensitivity::Public;
use super::known_keys::{Keys, OUTBOX, names};
use super::problem::closest;
use super::section::{NO_DURATION, Section, unknown};
use super::toml_tree;

/// The texts and numbers of [`Config`] and its tables, for their sensitivity only. serde knows which key belongs to
/// which table.
pub(super) const ENGINE: Keys = &[
    (Public, &["name", "mode", "workers", "handler_timeout", "publish_timeout", "store_timeout", "drain"]),
    (Public, &["no_route_grace", "busy_grace", "payload_bytes", "prefix"]),
    (Public, &["hot", "cold", "bytes", "fairness"]),
    (Public, &["max_attempts", "base_delay", "max_delay"]),
    (Public, &["interval", "busy_interval", "batch", "skip_recent", "duration"]),
    (Public, &["on_done", "action", "after", "age", "archived"]),
];

/// Settings of the engine that have no effect in a relay, each with the reason. They are refused, so that no operator
/// relies on them.
pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("name", "the outbox is named by its section: write [outbox.NAME]"),
    ("handler_timeout", "a relay has no handlers: write publish_timeout, or a route's timeout"),
    ("payload_bytes", "a relay writes no events: limit payloads where they are written"),
];

/// The most type mistakes of one outbox that are reported.
const MAX_TYPE_MISTAKES: usize = 100;

pub(super) fn config<'i>(
    outbox: &Section<'_, 'i>,
    name: &str,
    defaults: &DeTable<'i>,
    layout: Option<&Layout>,
) -> Option<Config> {
    let mut settings = outbox.table.clone();
    for key in names(OUTBOX) {
        settings.remove(key);
    }
    refuse_unsupported(outbox, &mut settings);
    let mut config = deserialized(outbox, settings, defaults)?;
    config.name = name.to_owned();
    if let Some(layout) = layout {
        foreign_layout::defaults(&mut config, layout, outbox);
        foreign_layout::check(&config, layout, outbox);
    }
    if config.mode == Mode::WriterOnly {
        outbox.wrong(
            "mode",
            "a relay delivers, so it cannot be writer_only: write multi_node, single_node or strict",
        );
        config.mode = Mode::MultiNode;
    }
    for problem in config.validate().err().into_iter().flat_map(|error| error.problems) {
        outbox.wrong(&problem.setting, problem.advice);
    }
    Some(config)
}

fn refuse_unsupported(outbox: &Section<'_, '_>, settings: &mut DeTable<'_>) {
    for (name, why) in UNSUPPORTED {
        if let Some((key, _)) = settings.remove_entry(*name) {
            outbox.add(&key.span(), name, format!("has no effect here: {why}"));
        }
    }
}

/// Deserializes the settings. serde stops at the first mistake, so the mistake is reported and removed, and the rest is
/// tried again.
fn deserialized<'i>(
    outbox: &Section<'_, 'i>,
    mut settings: DeTable<'i>,
    defaults: &DeTable<'i>,
) -> Option<Config> {
    for _ in 0..MAX_TYPE_MISTAKES {
        let mut whole = defaults.clone();
        toml_tree::overlay(&mut whole, settings.clone());
        let error = match Config::deserialize(Deserializer::from(Spanned::new(outbox.span.clone(), whole))) {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let place = error.span().unwrap_or_else(|| outbox.span.clone());
        let taken = toml_tree::take_out(&mut settings, &place);
        let key = taken.as_deref().unwrap_or_default();
        outbox.add(&place, key, reworded(error.message(), key, outbox));
        taken?;
    }
    None
}

/// Rewords a message of serde, which would show the value and thereby perhaps a secret.
fn reworded(message: &str, key: &str, outbox: &Section<'_, '_>) -> String {
    let mut names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field") {
        let typed = names.remove(0);
        return unknown_setting(typed, names, key, outbox);
    }
    if message.starts_with("unknown variant") {
        names.remove(0);
        names.retain(|name| *name != "writer_only");
        return format!("must be {}", names.join(" or "));
    }
    if message.contains("is not a duration") {
        return NO_DURATION.to_owned();
    }
    format!("must be {}", expected(message))
}

/// The problem of a key that is not one of the `known` keys of its table.
fn unknown_setting(typed: &str, mut known: Vec<&str>, key: &str, outbox: &Section<'_, '_>) -> String {
    if key == typed {
        known.retain(|name| UNSUPPORTED.iter().all(|(useless, _)| useless != name));
        known.splice(0..0, names(OUTBOX));
    }
    if let Some(meant) = closest(typed, &known) {
        let table = key.strip_suffix(typed).unwrap_or_default();
        outbox.problems.excuse(outbox.setting(&format!("{table}{meant}")));
    }
    unknown(typed, &known)
}

/// The type that serde expected, in plain words.
fn expected(message: &str) -> &str {
    let expected = message.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected);
    match expected {
        "usize" | "u32" | "u64" => "a whole number, zero or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a tuple of size 2" => "two numbers, as in [0.5, 1.5]",
        "a string" | "string or table" => "a text in quotes",
        expected if expected.starts_with("struct ") => "a table",
        expected if expected.starts_with("a duration") => "a duration such as \"5s\" or \"200ms\"",
        _ => "something else: see docs/relay.md",
    }
}
