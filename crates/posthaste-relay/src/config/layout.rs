//! Reads the layout of a foreign table: a preset's name, or columns and values one by one.

use posthaste::config::Retention;
use posthaste::store::OnDone;
use posthaste::{Config, Mode};
use posthaste_sqlx::TableName;
use posthaste_sqlx::foreign::{Field, Layout, State};
use toml::de::{DeTable, DeValue};

use super::problem::suggestion;
use super::problem_collector::ProblemCollector;
use super::section::Section;
use super::source_text::Span;

/// The layout of an outbox, if it has one.
pub(super) fn layout(section: &mut Section<'_, '_>) -> Option<Layout> {
    let node = section.take("layout")?;
    let (span, path) = (node.span(), section.setting("layout"));
    match node.into_inner() {
        DeValue::String(name) => preset(section.problems, &path, &name, &span),
        DeValue::Table(table) => described(Section::new(section.problems, path, span, table)),
        _ => {
            section.wrong("layout", &span, "must be the name of a preset, or a table with columns");
            None
        }
    }
}

fn preset(problems: &ProblemCollector<'_>, path: &str, name: &str, span: &Span) -> Option<Layout> {
    let layout = Layout::preset(name);
    if layout.is_none() {
        problems.add(span, path, format!("is no preset: {}", suggestion(name, &Layout::PRESETS)));
    }
    layout
}

/// A preset with changes, or a layout of its own. An empty text takes a column or a value of the preset away.
fn described(mut section: Section<'_, '_>) -> Option<Layout> {
    let mut layout = match section.text("preset") {
        Some((name, span)) => preset(section.problems, &section.setting("preset"), &name, &span)?,
        None => Layout::new(TableName::default()),
    };
    for field in Field::ALL {
        let Some((name, span)) = section.text(field.name()) else { continue };
        layout = match name.parse() {
            _ if name.is_empty() => layout.without(field),
            Ok(column) => layout.column(field, column),
            Err(error) => {
                section.wrong(field.name(), &span, error.to_string());
                layout
            }
        };
    }
    for state in State::ALL {
        let Some((value, span)) = section.text(state.name()) else { continue };
        layout = match value.parse() {
            _ if value.is_empty() => layout.without_value(state),
            Ok(value) => layout.value(state, value),
            Err(error) => {
                section.wrong(state.name(), &span, error.to_string());
                layout
            }
        };
    }
    if let Some((names, span)) = section.value::<Vec<String>>("key", "a list of columns") {
        match names.iter().map(|name| name.parse()).collect::<Result<Vec<_>, _>>() {
            Ok(columns) => layout = layout.key(columns),
            Err(error) => section.wrong("key", &span, error.to_string()),
        }
    }
    let (problems, path, span) = (section.problems, section.path.clone(), section.span.clone());
    section.finish();
    for (key, what) in layout.problems() {
        problems.missing(&span, &format!("{path}.{key}"), what);
    }
    Some(layout)
}

/// What the engine does otherwise for a foreign table, unless it is told: nothing is deleted, and the order
/// service's table has the retries that its document asks for. `told` are the settings of the outbox.
pub(super) fn defaults(config: &mut Config, layout: &Layout, told: &DeTable<'_>) {
    let tells = |table: &str, key: &str| match told.get(table).map(toml::Spanned::get_ref) {
        Some(DeValue::Table(table)) => key.is_empty() || table.contains_key(key),
        other => other.is_some(),
    };
    if !tells("purge", "done") {
        config.purge.done = Retention::KEEP;
    }
    if !tells("retry", "") && config.mode != Mode::Ordered && is_order_service(layout) {
        config.retry = Config::kafka_polling().retry;
    }
}

/// Whether attempts are nobody's but the publisher's own, as in the order service.
fn is_order_service(layout: &Layout) -> bool {
    layout.column_of(Field::Attempts).is_none() && layout.value_of(State::Failed).is_some()
}

/// What an engine cannot do with such a table.
pub(super) fn check(config: &Config, layout: &Layout, mut wrong: impl FnMut(&'static str, &'static str)) {
    if config.mode == Mode::Ordered {
        wrong("mode", "a layout has no order of insertion to keep: write multi_node or single_node");
    }
    if !config.poller.skip_recent.is_zero() {
        wrong("poller.skip_recent", "a layout takes every row that is committed: leave it out");
    }
    if layout.value_of(State::Archived).is_some() {
        return;
    }
    let what = "the layout has no status for archived events: name it as archived in the layout, or write keep or delete";
    if config.purge.on_done == OnDone::Archive {
        wrong("purge.on_done", what);
    }
    for (key, retention) in [("purge.done", &config.purge.done), ("purge.dead", &config.purge.dead)] {
        if retention.action == OnDone::Archive {
            wrong(key, what);
        }
    }
}
