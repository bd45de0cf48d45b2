//! Reads one table of the configuration, key by key, and reports what is wrong with each.

use std::time::Duration;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::problem::suggestion;
use super::problem_collector::ProblemCollector;
use super::source_text::{Origin, Span};
use super::tree::Node;

/// A table of which keys are taken one by one. [`finish`](Self::finish) refuses what nobody took.
pub(super) struct Section<'r, 'i> {
    pub(super) problems: &'r ProblemCollector<'i>,
    /// As in `outbox.shop`; empty for the whole.
    pub(super) path: String,
    /// Where the table begins.
    pub(super) span: Span,
    table: DeTable<'i>,
    asked: Vec<&'static str>,
}

impl<'r, 'i> Section<'r, 'i> {
    pub(super) fn new(
        problems: &'r ProblemCollector<'i>,
        path: impl Into<String>,
        span: Span,
        table: DeTable<'i>,
    ) -> Self {
        Self { problems, path: path.into(), span, table, asked: Vec::new() }
    }

    /// The full name of a setting of this table.
    pub(super) fn setting(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Where a key's value stands, or else the table.
    pub(super) fn place(&self, key: &str) -> Span {
        super::tree::place(&self.table, key, &self.span)
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Node<'i>> {
        self.asked.push(key);
        self.table.remove(key)
    }

    pub(super) fn wrong(&self, key: &str, span: &Span, what: impl Into<String>) {
        self.problems.add(span, &self.setting(key), what);
    }

    /// A value of a type that serde knows; `what` says which, such as "a whole number".
    pub(super) fn value<T: Deserialize<'i>>(&mut self, key: &'static str, what: &str) -> Option<(T, Span)> {
        let node = self.take(key)?;
        let span = node.span();
        match T::deserialize(ValueDeserializer::from(node)) {
            Ok(value) => Some((value, span)),
            Err(_) => {
                self.wrong(key, &span, format!("must be {what}"));
                None
            }
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<(String, Span)> {
        let node = self.take(key)?;
        let span = node.span();
        let text = text_of(node, self.problems);
        if text.is_none() {
            self.wrong(key, &span, "must be a text in quotes");
        }
        Some((text?, span))
    }

    pub(super) fn duration(&mut self, key: &'static str) -> Option<(Duration, Span)> {
        let (text, span) = self.text(key)?;
        match humantime::parse_duration(&text) {
            Ok(duration) => Some((duration, span)),
            Err(_) => {
                self.wrong(key, &span, "is no duration: write it as in \"5s\", \"200ms\" or \"1h 30m\"");
                None
            }
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let (text, span) = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(key, &span, format!("must be {}", names.join(" or ")));
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn table(&mut self, key: &'static str) -> Option<(DeTable<'i>, Span)> {
        let node = self.take(key)?;
        let (span, path) = (node.span(), self.setting(key));
        match node.into_inner() {
            DeValue::Table(table) => Some((table, span)),
            _ => {
                self.wrong(key, &span, format!("must be a table: write [{path}] and its keys below"));
                None
            }
        }
    }

    /// What nobody took.
    pub(super) fn rest(self) -> DeTable<'i> {
        self.table
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let what = unknown(key.get_ref(), &self.asked);
            self.problems.add(&key.span(), &self.setting(key.get_ref()), what);
            if let Some(meant) = super::problem::closest(key.get_ref(), self.asked.iter().copied()) {
                self.problems.excuse(self.setting(meant));
            }
        }
    }
}

pub(super) fn unknown(key: &str, names: &[&str]) -> String {
    format!("no such setting: {}", suggestion(key, names))
}

/// A text. What a variable holds is one, also if it looks like a number.
pub(super) fn text_of(node: Node<'_>, problems: &ProblemCollector<'_>) -> Option<String> {
    let span = node.span();
    if let DeValue::String(text) = node.into_inner() {
        return Some(text.into_owned());
    }
    let raw = problems.texts.find(&span).filter(|text| matches!(text.origin, Origin::Variable(_)))?;
    Some(raw.text.clone())
}
