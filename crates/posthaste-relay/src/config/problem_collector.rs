//! The problem collector: everything that is wrong with a configuration, each with its place.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::problem::{Problem, Problems};
use super::problem_excerpt::Excerpt;
use super::redaction::Redaction;
use super::source_text::{Origin, SourceLine, SourceTexts, Span};

/// The most problems that are shown.
const MAX_PROBLEMS_SHOWN: usize = 100;

/// What was found so far.
pub(super) struct ProblemCollector<'i> {
    pub(super) texts: &'i SourceTexts,
    redaction: Redaction,
    found: RefCell<Vec<Found>>,
    /// Settings that were said to be wrong: that they are missing then is no news.
    named: RefCell<BTreeSet<String>>,
}

/// A problem whose place is not yet looked up: there may be more of them than anybody is shown.
struct Found {
    span: Span,
    setting: String,
    what: String,
}

impl<'i> ProblemCollector<'i> {
    pub(super) fn new(texts: &'i SourceTexts, redaction: Redaction) -> Self {
        Self { texts, redaction, found: RefCell::default(), named: RefCell::default() }
    }

    /// Something is wrong with a setting that stands here.
    pub(super) fn add(&self, span: &Span, setting: &str, what: impl Into<String>) {
        self.excuse(setting.to_owned());
        let (setting, what) = (setting.to_owned(), what.into());
        self.found.borrow_mut().push(Found { span: span.clone(), setting, what });
    }

    /// A setting is not there. Nothing is said if it is there and wrong, or if the file could not be read to
    /// its end.
    pub(super) fn missing(&self, span: &Span, setting: &str, what: impl Into<String>) {
        if !self.concerns(setting) && !self.redaction.is_broken {
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
        let text = self.texts.find(&span);
        let source = text.map_or_else(|| self.source(), |text| text.origin.name().to_owned());
        let line = text.filter(|text| matches!(text.origin, Origin::File(_))).map(|text| text.line(&span));
        Problem {
            source,
            line: line.as_ref().map(|line| line.number),
            column: line.as_ref().map(SourceLine::column),
            setting,
            what,
            excerpt: line.and_then(|line| Excerpt::new(&line, self.redaction.visible(&line))),
        }
    }

    fn source(&self) -> String {
        let file = self.texts.iter().find(|text| matches!(text.origin, Origin::File(_)));
        file.map_or("the configuration", |file| file.origin.name()).to_owned()
    }
}
