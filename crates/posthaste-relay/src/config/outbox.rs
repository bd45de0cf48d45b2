//! Reads one `[outbox.NAME]`: its store, its engine's settings and its routes.

use posthaste::{Config, Mode};
use posthaste_redis::OutboxName;
use posthaste_sqlx::{Layout, SchemaName, TableName};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::OutboxConfig;
use super::layout;
use super::problem::closest;
use super::problem_collector::ProblemCollector;
use super::route;
use super::section::{Section, unknown};
use super::source_text::Span;
use super::tree;
use posthaste_stores::SecretUrl;
use posthaste_stores::StoreSpec;
use posthaste_stores::{KNOWN_URLS, StoreUrl, has_known_scheme};

/// What is not of the engine.
const RELAY_SETTINGS: &[&str] = &["store", "table", "schema", "layout", "pgbouncer", "migrate", "route"];

/// Settings of the engine that a relay has no use for, and why. To take them would promise what nobody keeps.
pub(super) const UNSUPPORTED_SETTINGS: &[(&str, &str)] = &[
    ("name", "an outbox is named by its table: write [outbox.NAME]"),
    ("handler_timeout", "a relay has no handlers: write publish_timeout, or a route's timeout"),
    ("payload_bytes", "a relay writes no events: limit payloads where they are written"),
];

/// The most mistakes in the types of one outbox's settings.
const MAX_TYPE_MISTAKES: usize = 100;

pub(super) fn outbox<'i>(
    mut section: Section<'_, 'i>,
    name: &str,
    defaults: &DeTable<'i>,
) -> Option<OutboxConfig> {
    let layout = layout::layout(&mut section);
    let store = store(&mut section, layout.as_ref());
    let migrate = migrate(&mut section, layout.as_ref());
    let routes = section.take("route");
    let (problems, path, span) = (section.problems, section.path.clone(), section.span.clone());
    let engine = section.rest();
    let config = config(problems, &path, &span, name, engine, defaults, layout.as_ref());
    let routes = route::routes(problems, &path, &span, routes);
    if store.is_none() {
        // After all else: it may be there under a misspelt name.
        let what = "is missing: write where the outbox is, as in store = \"postgres://user@host/database\"";
        problems.missing(&span, &format!("{path}.store"), what);
    }
    Some(OutboxConfig { store: store?, migrate, config: config?, routes })
}

/// A foreign table is not ours to make.
fn migrate(section: &mut Section<'_, '_>, layout: Option<&Layout>) -> bool {
    let Some((migrate, span)) = section.value("migrate", "true or false") else { return false };
    if migrate && layout.is_some() {
        section.wrong(
            "migrate",
            &span,
            "makes a table of ours, and the layout is of another: leave out one of them",
        );
    }
    migrate
}

fn store(section: &mut Section<'_, '_>, layout: Option<&Layout>) -> Option<StoreSpec> {
    let url = section.text("store");
    let table = section.text("table");
    let schema = section.text("schema");
    let pgbouncer = section.value::<bool>("pgbouncer", "true or false");
    let (text, span) = url?;
    if !has_known_scheme(&text) {
        section.wrong("store", &span, format!("is no URL of a store that is known: write {KNOWN_URLS}"));
        return None;
    }
    let kind = match text.parse() {
        Ok(StoreUrl::Memory) => {
            section.wrong(
                "store",
                &span,
                "nobody else can write into the memory of a relay: name a database",
            );
            return None;
        }
        Ok(kind) => kind,
        Err(error) => {
            section.wrong("store", &span, error.to_string());
            return None;
        }
    };
    check_names(section, &kind, table.as_ref(), schema.as_ref(), pgbouncer.as_ref());
    if layout.is_some() {
        if !matches!(kind, StoreUrl::Postgres(_) | StoreUrl::MySql(_)) {
            section.wrong("store", &span, "has no layouts: they are for PostgreSQL, MySQL and MariaDB");
        }
        if let Some((true, span)) = &pgbouncer {
            section.wrong("pgbouncer", span, "a layout needs a session of its own: name the server itself");
        }
    }
    let schema = schema.and_then(|(schema, _)| schema.parse::<SchemaName>().ok());
    let url: SecretUrl = text.parse().ok()?;
    let (table, pgbouncer) = (table.map(|(name, _)| name), pgbouncer.is_some_and(|(yes, _)| yes));
    Some(StoreSpec { url, table, schema, layout: layout.cloned(), pgbouncer })
}

fn check_names(
    section: &Section<'_, '_>,
    store: &StoreUrl,
    table: Option<&(String, Span)>,
    schema: Option<&(String, Span)>,
    pgbouncer: Option<&(bool, Span)>,
) {
    let is_redis = matches!(store, StoreUrl::Redis(_) | StoreUrl::RedisCluster(_));
    if let Some((name, span)) = table {
        let wrong = match is_redis {
            true => OutboxName::new(name).err().map(|error| error.to_string()),
            false => name.parse::<TableName>().err().map(|error| error.to_string()),
        };
        wrong.into_iter().for_each(|error| section.wrong("table", span, without_value(&error)));
    }
    let is_postgres = matches!(store, StoreUrl::Postgres(_));
    match schema {
        Some((name, span)) if is_postgres => {
            let wrong = name.parse::<SchemaName>().err();
            wrong
                .into_iter()
                .for_each(|error| section.wrong("schema", span, without_value(&error.to_string())));
        }
        Some((_, span)) => {
            section.wrong("schema", span, "is for PostgreSQL, and this store is none: leave it out");
        }
        None => {}
    }
    if let Some((true, span)) = pgbouncer
        && !is_postgres
    {
        section.wrong("pgbouncer", span, "is for PostgreSQL, and this store is none: leave it out");
    }
}

/// The error repeats the name, which the line shows if it may be shown.
fn without_value(error: &str) -> String {
    error.rsplit_once(" cannot name ").map_or_else(
        || "cannot be a name: take letters, digits and _".to_owned(),
        |(_, rest)| format!("cannot name {rest}"),
    )
}

/// The engine's settings, laid over those of a relay.
fn config<'i>(
    problems: &ProblemCollector<'i>,
    path: &str,
    span: &Span,
    name: &str,
    mut engine: DeTable<'i>,
    defaults: &DeTable<'i>,
    layout: Option<&Layout>,
) -> Option<Config> {
    refuse_unsupported(problems, path, &mut engine);
    let mut config = deserialized(problems, path, span, &mut engine, defaults)?;
    config.name = name.to_owned();
    if let Some(layout) = layout {
        layout::defaults(&mut config, layout, &engine);
        layout::check(&config, layout, |key, what| {
            problems.add(&tree::place(&engine, key, span), &format!("{path}.{key}"), what);
        });
    }
    if config.mode == Mode::WriterOnly {
        let what = "a relay delivers, so it is no writer: write multi_node, single_node or ordered";
        problems.add(&tree::place(&engine, "mode", span), &format!("{path}.mode"), what);
        config.mode = Mode::MultiNode;
    }
    if let Err(error) = config.validate() {
        for problem in error.problems {
            let place = tree::place(&engine, &problem.setting, span);
            problems.add(&place, &format!("{path}.{}", problem.setting), problem.advice);
        }
    }
    Some(config)
}

fn refuse_unsupported(problems: &ProblemCollector<'_>, path: &str, engine: &mut DeTable<'_>) {
    for (key, why) in UNSUPPORTED_SETTINGS {
        if let Some((key, _)) = engine.remove_entry(*key) {
            problems.add(
                &key.span(),
                &format!("{path}.{}", key.get_ref()),
                format!("has no effect here: {why}"),
            );
        }
    }
}

/// serde stops at the first mistake: it is taken out and the rest is tried again.
fn deserialized<'i>(
    problems: &ProblemCollector<'i>,
    path: &str,
    span: &Span,
    engine: &mut DeTable<'i>,
    defaults: &DeTable<'i>,
) -> Option<Config> {
    for _ in 0..MAX_TYPE_MISTAKES {
        let mut whole = defaults.clone();
        tree::overlay(&mut whole, engine.clone());
        let error = match Config::deserialize(Deserializer::from(Spanned::new(span.clone(), whole))) {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let place = error.span().unwrap_or_else(|| span.clone());
        let taken = tree::take_out(engine, &place);
        let setting = taken.as_ref().map_or_else(|| path.to_owned(), |taken| format!("{path}.{taken}"));
        problems.add(&place, &setting, reworded(error.message(), path, &setting, problems));
        taken?;
    }
    None
}

/// serde's messages show values, which may be secrets.
fn reworded(message: &str, path: &str, setting: &str, problems: &ProblemCollector<'_>) -> String {
    let mut names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field") {
        let typed = names.remove(0);
        if setting == format!("{path}.{typed}") {
            names.retain(|name| UNSUPPORTED_SETTINGS.iter().all(|(useless, _)| useless != name));
            names.splice(0..0, RELAY_SETTINGS.iter().copied());
        }
        if let Some(meant) = closest(typed, names.iter().copied()) {
            problems.excuse(setting.strip_suffix(typed).unwrap_or_default().to_owned() + meant);
        }
        return unknown(typed, &names);
    }
    if message.starts_with("unknown variant") {
        names.remove(0);
        names.retain(|name| *name != "writer_only");
        return format!("must be {}", names.join(" or "));
    }
    if message.contains("is not a duration") {
        return "is no duration: write it as in \"5s\", \"200ms\" or \"1h 30m\"".to_owned();
    }
    format!("must be {}", expected(message))
}

/// What serde expected, as people say it.
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
