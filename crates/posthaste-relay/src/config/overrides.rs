//! Lays variables such as `POSTHASTE__OUTBOX__SHOP__STORE` over the configuration.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::problem::closest;
use super::problem_collector::ProblemCollector;
use super::route::default_name;
use super::source_text::{Origin, SourceText, SourceTexts, Span};
use super::tree::{self, Node};
use super::variables::{Environment, secret_file};

const VARIABLE_PREFIX: &str = "POSTHASTE__";

/// Which variables cannot be read, and why.
pub(super) type Unreadable = Vec<(String, String)>;

/// Puts the values of all overrides in the row of texts.
pub(super) fn collect(environment: &Environment, texts: &mut SourceTexts) -> Unreadable {
    let mut unreadable = Vec::new();
    for (name, value) in environment.iter().filter(|(name, _)| is_override(name)) {
        let value = match (value, is_file(name)) {
            (Some(path), true) => secret_file(Path::new(path)),
            (Some(value), false) => Ok(value.to_owned()),
            (None, _) => Err("is no text: set it anew".to_owned()),
        };
        let text = value.unwrap_or_else(|why| {
            unreadable.push((name.to_owned(), why));
            String::new()
        });
        texts.add(Origin::Variable(name.to_owned()), text);
    }
    unreadable
}

/// Lays every override over the table.
pub(super) fn apply<'i>(table: &mut DeTable<'i>, unreadable: &Unreadable, problems: &ProblemCollector<'i>) {
    let mut before: Vec<String> = Vec::new();
    for text in problems.texts.iter() {
        let Origin::Variable(name) = &text.origin else { continue };
        let path = path_of(name);
        if let Some((_, why)) = unreadable.iter().find(|(other, _)| other == name) {
            problems.add(&text.span(), &path.join("."), why.clone());
            continue;
        }
        if before.contains(&path.join("__")) {
            problems.add(&text.span(), &path.join("."), "is set by two variables: unset one of them");
            continue;
        }
        before.push(path.join("__"));
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Err(what) = set(table, &mut Vec::new(), &parts, value(text), &text.span()) {
            problems.add(&text.span(), &path.join("."), what);
        }
    }
}

/// Whether a variable is meant for a configuration.
pub(super) fn is_override(name: &str) -> bool {
    name.get(..VARIABLE_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(VARIABLE_PREFIX))
}

fn is_file(name: &str) -> bool {
    name.to_lowercase().ends_with("_file")
}

/// The parts of a variable's name, without what says that its value is in a file.
fn path_of(name: &str) -> Vec<String> {
    let name = name[VARIABLE_PREFIX.len()..].to_lowercase();
    let name = name.strip_suffix("_file").unwrap_or(&name);
    name.split("__").map(str::to_owned).collect()
}

/// A value of TOML, or else a text.
fn value<'i>(text: &'i SourceText) -> Node<'i> {
    match DeValue::parse(&text.text) {
        Ok(value) => tree::shifted(value, text.start),
        Err(_) => tree::text(text.text.as_str(), &text.span()),
    }
}

/// Puts a value where the path leads, and says why that is nowhere.
fn set<'i>(
    table: &mut DeTable<'i>,
    above: &mut Vec<String>,
    path: &[&str],
    value: Node<'i>,
    span: &Span,
) -> Result<(), String> {
    let [first, rest @ ..] = path else { return Err("leads nowhere: name a setting".to_owned()) };
    if first.is_empty() {
        return Err("has an empty part: write two underscores between two parts".to_owned());
    }
    let name = match key_like(table, first) {
        Some(name) => name,
        None if above.len() == 1 && above[0] == "outbox" => return Err(no_outbox(table, first)),
        None => (*first).to_owned(),
    };
    above.push(name.clone());
    if rest.is_empty() {
        tree::put(table, tree::key(name, span), value);
        return Ok(());
    }
    if !table.contains_key(name.as_str()) {
        let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        tree::put(table, tree::key(name.clone(), span), empty);
    }
    match table.get_mut(name.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => set(inner, above, rest, value, span),
        Some(DeValue::Array(values)) => set_in_array(values, above, rest, value, span),
        _ => Err(format!("leads nowhere: `{}` is no table", above.join("."))),
    }
}

fn set_in_array<'i>(
    values: &mut DeArray<'i>,
    above: &mut Vec<String>,
    path: &[&str],
    value: Node<'i>,
    span: &Span,
) -> Result<(), String> {
    let [first, rest @ ..] = path else { return Err("leads nowhere: name a setting".to_owned()) };
    let names: Vec<String> = values.iter().map(name_of).collect();
    let index = position(&names, first)?;
    match values.get_mut(index).map(Spanned::get_mut) {
        Some(DeValue::Table(table)) => set(table, above, rest, value, span),
        _ => Err(format!("leads nowhere: `{}` has no tables", above.join("."))),
    }
}

/// The element that is meant: by its name, as it is or without its signs, or by its number from 0.
fn position(names: &[String], part: &str) -> Result<usize, String> {
    if let Some(index) = names.iter().position(|name| name.to_lowercase() == part) {
        return Ok(index);
    }
    let alike: Vec<usize> = (0..names.len()).filter(|index| plain(&names[*index]) == part).collect();
    match (alike.as_slice(), part.parse::<usize>()) {
        ([index], _) => Ok(*index),
        ([], Ok(index)) if index < names.len() => Ok(index),
        ([], _) => {
            let hint = match closest(part, names.iter().map(String::as_str)) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("there are {}, also by their number from 0", names.join(", ")),
            };
            Err(format!("leads nowhere: there is no route `{part}`: {hint}"))
        }
        _ => Err(format!("several routes could be `{part}`: name one by its number, from 0")),
    }
}

fn name_of(route: &Node<'_>) -> String {
    let text = |key: &str| route.get_ref().get(key).and_then(|value| value.get_ref().as_str());
    let usual =
        || default_name(text("aggregate").unwrap_or("*"), text("event").unwrap_or("*"), text("tenant"));
    text("name").map_or_else(usual, str::to_owned)
}

/// The key that is meant, as it stands in the table.
fn key_like(table: &DeTable<'_>, part: &str) -> Option<String> {
    let keys = || table.keys().map(|key| &**key.get_ref());
    let found =
        keys().find(|key| key.to_lowercase() == part).or_else(|| keys().find(|key| plain(key) == part));
    found.map(str::to_owned)
}

/// As the name of a variable can hold it: letters and digits, anything else as one underscore.
fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

fn no_outbox(table: &DeTable<'_>, part: &str) -> String {
    let names: Vec<&str> = table.keys().map(|key| &**key.get_ref()).collect();
    let hint = match closest(part, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    format!("leads nowhere: there is no outbox `{part}`: {hint}")
}
