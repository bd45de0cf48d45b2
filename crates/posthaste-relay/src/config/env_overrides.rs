//! Environment overrides: variables such as `POSTHASTE__OUTBOX__SHOP__STORE` replace settings of the configuration.

use std::collections::HashSet;
use std::path::Path;

use toml::de::{DeArray, DeTable, DeValue};

use super::environment::{Environment, secret_file};
use super::problem::did_you_mean;
use super::problem_collector::ProblemCollector;
use super::route::default_name;
use super::source_text::{Origin, SourceText, SourceTexts, Span};
use super::toml_tree::{self, Node};

const VARIABLE_PREFIX: &str = "POSTHASTE__";

/// Variables that cannot be read, each with the reason.
pub(super) type Unreadable = Vec<(String, String)>;

/// Adds the values of all overrides to the source texts.
pub(super) fn collect(environment: &Environment, texts: &mut SourceTexts) -> Unreadable {
    let mut unreadable = Vec::new();
    for (name, value) in environment.iter().filter(|(name, _)| is_override(name)) {
        let value = match (value, is_file(name)) {
            (Some(path), true) => secret_file(Path::new(path)),
            (Some(value), false) => Ok(value.to_owned()),
            (None, _) => Err("is not UTF-8 text: set it again".to_owned()),
        };
        let text = value.unwrap_or_else(|why| {
            unreadable.push((name.to_owned(), why));
            String::new()
        });
        texts.add(Origin::Variable(name.to_owned()), text);
    }
    unreadable
}

/// Applies every override to the table.
pub(super) fn apply<'i>(table: &mut DeTable<'i>, unreadable: &Unreadable, problems: &ProblemCollector<'i>) {
    let mut seen = HashSet::new();
    for text in problems.texts.iter() {
        let Origin::Variable(name) = &text.origin else { continue };
        let path = path_of(name);
        let unreadable = unreadable.iter().find(|(other, _)| other == name);
        let done = match unreadable {
            Some((_, why)) => Err(why.clone()),
            None if !seen.insert(path.clone()) => {
                Err("is set by two variables: unset one of them".to_owned())
            }
            None => set(table, "", &path, value(text), &text.span()),
        };
        if let Err(what) = done {
            problems.add(&text.span(), &path.join("."), what);
        }
    }
}

/// Whether a variable of this name overrides a setting.
pub(super) fn is_override(name: &str) -> bool {
    name.get(..VARIABLE_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(VARIABLE_PREFIX))
}

fn is_file(name: &str) -> bool {
    name.to_lowercase().ends_with("_file")
}

/// The parts of a variable's name, without the suffix `_FILE`.
fn path_of(name: &str) -> Vec<String> {
    let name = name[VARIABLE_PREFIX.len()..].to_lowercase();
    let name = name.strip_suffix("_file").unwrap_or(&name);
    name.split("__").map(str::to_owned).collect()
}

/// The value as TOML, or else as text.
fn value<'i>(text: &'i SourceText) -> Node<'i> {
    match DeValue::parse(&text.text) {
        Ok(value) => toml_tree::shifted(value, text.start),
        Err(_) => toml_tree::text(text.text.as_str(), &text.span()),
    }
}

/// Sets the value at this path, within the table of the setting `above`. The error says why the path matches no
/// setting.
fn set<'i>(
    table: &mut DeTable<'i>,
    above: &str,
    path: &[String],
    value: Node<'i>,
    span: &Span,
) -> Result<(), String> {
    let [first, rest @ ..] = path else { return Err("matches no setting: name a setting".to_owned()) };
    if first.is_empty() {
        return Err("has an empty part: write two underscores between two parts".to_owned());
    }
    let names: Vec<&str> = table.keys().map(|key| &**key.get_ref()).collect();
    let name = match meant(&names, first).first() {
        Some(index) => names[*index].to_owned(),
        None if above == "outbox" => {
            let hint = did_you_mean(first, &names, || format!("there are {}", names.join(", ")));
            return Err(format!("matches no setting: there is no outbox `{first}`: {hint}"));
        }
        None => first.clone(),
    };
    let Some(next) = rest.first() else {
        toml_tree::put(table, name, value);
        return Ok(());
    };
    let above = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
    match toml_tree::entry(table, name, span).get_mut() {
        DeValue::Table(inner) => set(inner, &above, rest, value, span),
        DeValue::Array(routes) => match route(routes, next)?.get_mut() {
            DeValue::Table(route) => set(route, &above, &rest[1..], value, span),
            _ => Err(format!("matches no setting: `{above}` has no tables")),
        },
        _ => Err(format!("matches no setting: `{above}` is no table")),
    }
}

/// The route that this part of the path names.
fn route<'t, 'i>(routes: &'t mut DeArray<'i>, part: &str) -> Result<&'t mut Node<'i>, String> {
    let names: Vec<String> = routes.iter().map(name_of).collect();
    let index = position(&names.iter().map(String::as_str).collect::<Vec<_>>(), part)?;
    routes.get_mut(index).ok_or_else(|| "matches no setting".to_owned())
}

/// The index of the route with this name, exactly or without its punctuation, or with this number from 0.
fn position(names: &[&str], part: &str) -> Result<usize, String> {
    match (meant(names, part).as_slice(), part.parse::<usize>()) {
        ([index], _) => Ok(*index),
        ([], Ok(index)) if index < names.len() => Ok(index),
        ([], _) => {
            let there_are = || format!("there are {}, also by their number from 0", names.join(", "));
            let hint = did_you_mean(part, names, there_are);
            Err(format!("matches no setting: there is no route `{part}`: {hint}"))
        }
        _ => Err(format!("several routes could be `{part}`: name one by its number, from 0")),
    }
}

/// The indices of the names that match: the one that is equal but for case, or else all that are equal without their
/// punctuation.
fn meant(names: &[&str], part: &str) -> Vec<usize> {
    let exact = names.iter().position(|name| name.to_lowercase() == part);
    let alike = || (0..names.len()).filter(|index| plain(names[*index]) == part).collect();
    exact.map_or_else(alike, |index| vec![index])
}

fn name_of(route: &Node<'_>) -> String {
    let text = |key: &str| route.get_ref().get(key).and_then(|value| value.get_ref().as_str());
    let usual =
        || default_name(text("aggregate").unwrap_or("*"), text("event").unwrap_or("*"), text("tenant"));
    text("name").map_or_else(usual, str::to_owned)
}

/// The name as a variable can contain it: lower-case letters and digits, and one underscore for anything else.
fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}
