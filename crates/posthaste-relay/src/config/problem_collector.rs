//! The problem collector, which also decides how much of a line may be shown with each: what may be a secret is not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

use super::problem::{Excerpt, Problem, Problems};
use super::source_text::{Origin, SourceLine, SourceTexts, Span, characters};

/// Keys whose text is no secret. The text of any other key may be one, of a misspelt `store` for example.
const HARMLESS: &[&str] = &[
    "action",
    "after",
    "age",
    "aggregate",
    "aggregate_id",
    "aggregate_type",
    "allow_http",
    "allow_networks",
    "archived",
    "attempts",
    "base_delay",
    "batch",
    "busy_grace",
    "busy_interval",
    "bytes",
    "ca",
    "cold",
    "concurrency",
    "connect_timeout",
    "content_type",
    "created_at",
    "drain",
    "duration",
    "error",
    "event",
    "event_type",
    "failed",
    "fairness",
    "format",
    "handler_timeout",
    "hot",
    "id",
    "interval",
    "layout",
    "level",
    "listen",
    "max_attempts",
    "max_body_bytes",
    "max_delay",
    "migrate",
    "mode",
    "name",
    "no_route_grace",
    "on_done",
    "payload",
    "payload_bytes",
    "pending",
    "pgbouncer",
    "prefix",
    "preset",
    "publish_timeout",
    "rate",
    "ready_lag",
    "requests",
    "schema",
    "schema_version",
    "sent",
    "sent_at",
    "skip_recent",
    "status",
    "store_timeout",
    "table",
    "tenant",
    "timeout",
    "topic",
    "workers",
];

/// Keys that are shown without their value.
const SECRET: &[&str] =
    &["store", "publish", "token", "role", "signing_key", "previous_signing_key", "headers"];

/// The most problems that are shown.
const MAX_PROBLEMS_SHOWN: usize = 100;

/// A line is not shown from here on.
const MAX_EXCERPT_CHARS: usize = 120;

/// What was found so far.
pub(super) struct ProblemCollector<'i> {
    pub(super) texts: &'i SourceTexts,
    found: RefCell<Vec<Found>>,
    /// Settings that were said to be wrong: that they are missing then is no news.
    named: RefCell<BTreeSet<String>>,
    /// Texts that may be secrets.
    hidden: RefCell<Vec<Span>>,
    /// The file is no TOML, so nobody knows for sure what is a key and what a value.
    broken: Cell<bool>,
}

/// A problem whose place is not yet looked up: there may be more of them than anybody is shown.
struct Found {
    span: Span,
    setting: String,
    what: String,
}

impl<'i> ProblemCollector<'i> {
    pub(super) fn new(texts: &'i SourceTexts) -> Self {
        Self {
            texts,
            found: RefCell::default(),
            named: RefCell::default(),
            hidden: RefCell::default(),
            broken: Cell::new(false),
        }
    }

    /// Notes which texts of the file may be secrets.
    pub(super) fn hide_secrets_of(&self, table: &DeTable<'_>) {
        hide(table, false, &mut self.hidden.borrow_mut());
    }

    /// The file is no TOML.
    pub(super) fn syntax(&self, span: &Span, what: impl Into<String>) {
        self.broken.set(true);
        self.add(span, "", what);
    }

    /// Something is wrong with a setting that stands here.
    pub(super) fn add(&self, span: &Span, setting: &str, what: impl Into<String>) {
        self.named.borrow_mut().insert(setting.to_owned());
        let (setting, what) = (setting.to_owned(), what.into());
        self.found.borrow_mut().push(Found { span: span.clone(), setting, what });
    }

    /// A setting is not there. Nothing is said if it is there and wrong, or if the file could not be read to
    /// its end.
    pub(super) fn missing(&self, span: &Span, setting: &str, what: impl Into<String>) {
        if !self.concerns(setting) && !self.broken.get() {
            self.add(span, setting, what);
        }
    }

    /// Whether something was said of this setting, or of one within it.
    pub(super) fn concerns(&self, setting: &str) -> bool {
        let named = self.named.borrow();
        let mut behind = named.range(setting.to_owned()..).map_while(|named| named.strip_prefix(setting));
        behind.any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Nothing is to be said of this setting: it is there under another name.
    pub(super) fn excuse(&self, setting: String) {
        self.named.borrow_mut().insert(setting);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Everything that is wrong, by place; at one place in the order in which it was found.
    pub(super) fn finish(&self) -> Problems {
        let mut found = self.found.take();
        found.sort_by_key(|found| found.span.start);
        let more = found.len().saturating_sub(MAX_PROBLEMS_SHOWN);
        found.truncate(MAX_PROBLEMS_SHOWN);
        let problems = found.into_iter().map(|found| self.problem(found)).collect();
        Problems { source: self.source(), problems, more }
    }

    fn problem(&self, Found { span, setting, what }: Found) -> Problem {
        let text = self.texts.find(&span).filter(|text| text.origin != Origin::Defaults);
        let source = text.map_or_else(|| self.source(), |text| name(&text.origin));
        let line = text.filter(|text| matches!(text.origin, Origin::File(_))).map(|text| text.line(&span));
        Problem {
            source,
            line: line.as_ref().map(|line| line.number),
            column: line.as_ref().map(SourceLine::column),
            setting,
            what,
            excerpt: line.and_then(|line| self.excerpt(&line)),
        }
    }

    fn source(&self) -> String {
        let file = self.texts.iter().find(|text| matches!(text.origin, Origin::File(_)));
        file.map_or_else(|| "the configuration".to_owned(), |file| name(&file.origin))
    }

    fn excerpt(&self, line: &SourceLine<'_>) -> Option<Excerpt> {
        let shown = if self.broken.get() { of_broken(line.text) } else { self.not_hidden(line) };
        if line.text[..shown].trim().is_empty() {
            return None;
        }
        let caret = characters(line.text, line.range.start.min(shown));
        let behind = line.text[shown..].trim();
        let cut = !behind.is_empty() && !behind.starts_with('#');
        if caret >= MAX_EXCERPT_CHARS {
            return None;
        }
        let mut excerpt: String = line.text[..shown].chars().take(MAX_EXCERPT_CHARS).map(printed).collect();
        excerpt.truncate(excerpt.trim_end().len());
        if cut {
            let gap = caret.saturating_sub(excerpt.chars().count()).max(usize::from(excerpt.ends_with('=')));
            excerpt.extend(std::iter::repeat_n(' ', gap));
            excerpt.push('…');
        }
        let end = characters(line.text, line.range.end.min(shown));
        Some(Excerpt { text: excerpt, caret, carets: end.saturating_sub(caret).clamp(1, MAX_EXCERPT_CHARS) })
    }

    /// How much of a line may be shown: up to the first text that may be a secret, and no comment.
    fn not_hidden(&self, line: &SourceLine<'_>) -> usize {
        let comment = line.text[line.range.end..].find('#').map_or(line.text.len(), |at| line.range.end + at);
        let end = line.start + line.text.len();
        let hidden = self.hidden.borrow();
        let within = hidden.iter().filter(|span| span.start < end && span.end > line.start);
        let first = within.map(|span| span.start.saturating_sub(line.start)).min();
        comment.min(first.unwrap_or(usize::MAX))
    }
}

fn name(origin: &Origin) -> String {
    match origin {
        Origin::File(name) | Origin::Variable(name) => name.clone(),
        Origin::Flag(name) => (*name).to_owned(),
        Origin::Defaults => "the defaults".to_owned(),
    }
}

fn printed(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

fn hide(table: &DeTable<'_>, all: bool, hidden: &mut Vec<Span>) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let within = all || SECRET.contains(&name) || name == "tokens";
        let is_known = HARMLESS.contains(&name) || SECRET.contains(&name);
        // Somebody may take a token for a key.
        if all && !is_known && !value.get_ref().is_table() {
            hidden.push(key.span());
        }
        hide_value(value, within || !HARMLESS.contains(&name), within, hidden);
    }
}

fn hide_value(value: &toml::Spanned<DeValue<'_>>, secret: bool, within: bool, hidden: &mut Vec<Span>) {
    match value.get_ref() {
        DeValue::Table(table) => hide(table, within, hidden),
        DeValue::Array(values) => values.iter().for_each(|value| hide_value(value, secret, within, hidden)),
        DeValue::String(text) if secret || text.contains("://") || text.contains('@') => {
            hidden.push(value.span());
        }
        // A password of digits is a number to TOML.
        _ if within => hidden.push(value.span()),
        _ => {}
    }
}

/// How much of a line may be shown where nobody knows what is a value: a header, or a key that is known.
fn of_broken(line: &str) -> usize {
    let is_of_header = |c: char| c.is_ascii_alphanumeric() || "[]._- ".contains(c);
    if line.starts_with('[') && line.chars().all(is_of_header) {
        return line.len();
    }
    let indent = line.len() - line.trim_start().len();
    let word_end = line[indent..].find(' ').map(|at| indent + at);
    let key_end = line.find('=').or(word_end).unwrap_or(line.len());
    let key = line[..key_end].trim();
    let last = key.rsplit('.').next().unwrap_or_default().trim();
    if !HARMLESS.contains(&last) && !SECRET.contains(&last) {
        return 0;
    }
    let behind = line[key_end..].trim_start_matches(['=', ' ']);
    line.len() - behind.len()
}
