//! Reads `layout`, the description of a foreign table: the name of a preset, or a table of columns and values.

use std::fmt::Display;
use std::str::FromStr;

use posthaste::config::Retention;
use posthaste::store::OnDone;
use posthaste::{Config, Mode};
use posthaste_sqlx::TableName;
use posthaste_sqlx::foreign::{Field, Layout, State};
use toml::de::DeValue;

use super::known_keys::Keys;
use super::known_keys::Sensitivity::{Container, Hidden, Public};
use super::optional_setting::set;
use super::problem::suggestion;
use super::section::Section;

/// A preset, every [`Field`], every [`State`] and the columns of the key.
pub(super) const LAYOUT: Keys = &[
    (
        Public,
        &["preset", "id", "event_type", "aggregate_type", "aggregate_id", "tenant", "topic", "content_type"],
    ),
    (Public, &["schema_version"]),
    (Hidden, &["headers"]),
    (Public, &["payload", "created_at", "sent_at", "status", "attempts", "error"]),
    (Public, &["pending", "sent", "failed", "archived"]),
    (Container, &["key"]),
];

/// The layout of an outbox; `None` if it has none or an invalid one.
pub(super) fn layout(outbox: &Section<'_, '_>) -> Option<Layout> {
    let node = outbox.get("layout")?;
    match node.get_ref() {
        DeValue::String(_) => outbox.parse("layout", preset),
        DeValue::Table(_) => described(outbox.section("layout")?),
        _ => {
            outbox.wrong("layout", "must be the name of a preset, or a table with columns");
            None
        }
    }
}

fn preset(name: String) -> Result<Layout, String> {
    Layout::preset(&name).ok_or_else(|| format!("is not a preset: {}", suggestion(&name, &Layout::PRESETS)))
}

/// A preset with changes, or a layout from its columns. An empty text removes a column or a value of the preset.
fn described(section: Section<'_, '_>) -> Option<Layout> {
    let section = section.only(LAYOUT);
    let mut layout = match section.get("preset") {
        Some(_) => section.parse("preset", preset)?,
        None => Layout::new(TableName::default()),
    };
    for field in Field::ALL {
        layout = match section.parse(field.name(), unless_empty) {
            Some(Some(column)) => layout.column(field, column),
            Some(None) => layout.without(field),
            None => layout,
        };
    }
    for state in State::ALL {
        layout = match section.parse(state.name(), unless_empty) {
            Some(Some(value)) => layout.value(state, value),
            Some(None) => layout.without_value(state),
            None => layout,
        };
    }
    let columns = section.value::<Vec<String>>("key", "a list of columns");
    let columns = section
        .check("key", columns, |names| names.iter().map(|name| parsed(name)).collect::<Result<Vec<_>, _>>());
    layout = set(layout, columns, Layout::key);
    for (key, what) in layout.problems() {
        section.missing(key, what);
    }
    Some(layout)
}

fn unless_empty<T: FromStr<Err: Display>>(text: String) -> Result<Option<T>, String> {
    if text.is_empty() { Ok(None) } else { parsed(&text).map(Some) }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Changes the defaults of the engine for a foreign table, unless the `outbox` sets these keys: nothing is deleted, and
/// the table of the order service gets the retries of that service's own poller.
pub(super) fn defaults(config: &mut Config, layout: &Layout, outbox: &Section<'_, '_>) {
    if outbox.get("purge").is_none_or(|purge| purge.get_ref().get("done").is_none()) {
        config.purge.done = Retention::KEEP;
    }
    if outbox.get("retry").is_none() && config.mode != Mode::Strict && is_order_service(layout) {
        config.retry = Config::kafka_polling().retry;
    }
}

/// Whether the table has a `failed` status but no column for attempts, as that of the order service.
fn is_order_service(layout: &Layout) -> bool {
    layout.column_of(Field::Attempts).is_none() && layout.value_of(State::Failed).is_some()
}

/// Reports settings that an engine cannot follow on a foreign table.
pub(super) fn check(config: &Config, layout: &Layout, outbox: &Section<'_, '_>) {
    if config.mode == Mode::Strict {
        outbox.wrong(
            "mode",
            "strict mode needs an insertion order, which a layout does not have: write multi_node or \
             single_node",
        );
    }
    if !config.poller.skip_recent.is_zero() {
        outbox.wrong("poller.skip_recent", "a layout takes every row that is committed: leave it out");
    }
    if layout.value_of(State::Archived).is_some() {
        return;
    }
    for (key, action) in [
        ("purge.on_done", config.purge.on_done),
        ("purge.done", config.purge.done.action),
        ("purge.dead", config.purge.dead.action),
    ] {
        if action == OnDone::Archive {
            outbox.wrong(
                key,
                "the layout has no status for archived events: name it as archived in the layout, or write keep or \
                 delete",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::known_keys::names;
    use super::*;

    #[test]
    fn every_column_and_value_has_a_key() {
        let words = Field::ALL.map(Field::name).into_iter().chain(State::ALL.map(State::name));
        let expected: Vec<&str> = ["preset"].into_iter().chain(words).chain(["key"]).collect();
        assert_eq!(names(LAYOUT), expected);
    }
}
