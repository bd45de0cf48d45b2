//! Section: one table of the configuration, read key by key. Each getter reports an invalid value and returns `None`.

use std::time::Duration;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::known_keys::{Keys, names};
use super::problem::{closest, suggestion};
use super::problem_collector::ProblemCollector;
use super::source_text::{Origin, Span};
use super::toml_tree::{self, Node};

/// A table with its name and its place.
#[derive(Clone)]
pub(super) struct Section<'r, 'i> {
    pub(super) problems: &'r ProblemCollector<'i>,
    /// As in `outbox.shop`; empty for the configuration as a whole.
    path: String,
    /// The place of the table.
    pub(super) span: Span,
    pub(super) table: &'r DeTable<'i>,
}

impl<'r, 'i> Section<'r, 'i> {
    /// The section of the configuration as a whole.
    pub(super) fn root(problems: &'r ProblemCollector<'i>, table: &'r DeTable<'i>) -> Self {
        Self { problems, path: String::new(), span: 0..0, table }
    }

    /// The section of a setting whose value is a table; `None` if the value is something else.
    pub(super) fn within(&self, key: &str, node: &'r Node<'i>) -> Option<Self> {
        let table = node.get_ref().as_table()?;
        Some(Self { problems: self.problems, path: self.setting(key), span: node.span(), table })
    }

    /// Reports every key that is not one of these.
    pub(super) fn only(self, keys: Keys) -> Self {
        let names = names(keys);
        for key in self.table.keys().filter(|key| !names.contains(&&**key.get_ref())) {
            let typed = key.get_ref();
            self.add(&key.span(), typed, unknown(typed, &names));
            if let Some(meant) = closest(typed, &names) {
                self.problems.excuse(self.setting(meant));
            }
        }
        self
    }

    /// The full name of a key; of the table itself if the key is empty.
    pub(super) fn setting(&self, key: &str) -> String {
        let dot = if self.path.is_empty() || key.is_empty() { "" } else { "." };
        format!("{}{dot}{key}", self.path)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'r Node<'i>> {
        self.table.get(key)
    }

    /// All entries, in the order of the file.
    pub(super) fn entries(&self) -> Vec<(&'r str, &'r Node<'i>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, node)| (&**key.get_ref(), node)).collect()
    }

    /// The place of a setting such as `poller.batch`, or else of the innermost table around it.
    pub(super) fn place(&self, key: &str) -> Span {
        toml_tree::place(self.table, key, &self.span)
    }

    /// Reports a problem with the value of a key, or with the table itself if the key is empty, at its place.
    pub(super) fn wrong(&self, key: &str, what: impl Into<String>) {
        self.add(&self.place(key), key, what);
    }

    /// Reports a problem with a key, at this place.
    pub(super) fn add(&self, span: &Span, key: &str, what: impl Into<String>) {
        self.problems.add(span, &self.setting(key), what);
    }

    /// Reports a key that is missing, unless a problem with it is reported already.
    pub(super) fn missing(&self, key: &str, what: impl Into<String>) {
        self.problems.missing(&self.span, &self.setting(key), what);
    }

    /// Whether a problem with this key, or with a setting in it, is reported already.
    pub(super) fn concerns(&self, key: &str) -> bool {
        self.problems.concerns(&self.setting(key))
    }

    /// A value of a type that serde deserializes. `what` describes it for the error, as "a whole number".
    pub(super) fn value<T: Deserialize<'i>>(&self, key: &str, what: &str) -> Option<T> {
        let value = T::deserialize(ValueDeserializer::from(self.get(key)?.clone())).ok();
        if value.is_none() {
            self.wrong(key, format!("must be {what}"));
        }
        value
    }

    /// A boolean; `false` if the key is missing.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.value(key, "true or false").unwrap_or(false)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        let text = self.text_of(self.get(key)?);
        if text.is_none() {
            self.wrong(key, "must be text in quotes");
        }
        text
    }

    /// The node as text. The value of a variable always counts as text, also if it looks like a number.
    pub(super) fn text_of(&self, node: &Node<'_>) -> Option<String> {
        if let DeValue::String(text) = node.get_ref() {
            return Some(text.clone().into_owned());
        }
        let raw = self.problems.texts.find(&node.span())?;
        matches!(raw.origin, Origin::Variable(_)).then(|| raw.text.clone())
    }

    /// Parses the text of a key; reports an error.
    pub(super) fn parse<T>(&self, key: &str, parse: impl FnOnce(String) -> Result<T, String>) -> Option<T> {
        self.check(key, self.text(key), parse)
    }

    /// Converts the value of a key; reports an error.
    pub(super) fn check<T, U>(
        &self,
        key: &str,
        value: Option<T>,
        check: impl FnOnce(T) -> Result<U, String>,
    ) -> Option<U> {
        check(value?).map_err(|what| self.wrong(key, what)).ok()
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        self.parse(key, |text| humantime::parse_duration(&text).map_err(|_| NO_DURATION.to_owned()))
    }

    /// The meaning of one of these words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        self.parse(key, |text| {
            let found = words.iter().find(|(word, _)| *word == text);
            let names = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
            found.map(|(_, value)| *value).ok_or_else(|| format!("must be {}", names()))
        })
    }

    pub(super) fn section(&self, key: &str) -> Option<Self> {
        let node = self.get(key)?;
        let section = self.within(key, node);
        if section.is_none() {
            let what = format!("must be a table: write [{}] and its keys below", self.setting(key));
            self.add(&node.span(), key, what);
        }
        section
    }
}

/// The problem of a duration that cannot be parsed.
pub(super) const NO_DURATION: &str = "is not a duration: write it as in \"5s\", \"200ms\" or \"1h 30m\"";

pub(super) fn unknown(key: &str, names: &[&str]) -> String {
    format!("no such setting: {}", suggestion(key, names))
}
