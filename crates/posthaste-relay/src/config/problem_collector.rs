//! Problem collector: gathers the problems of a configuration while it is read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::problem::{Problem, Problems};
use super::problem_excerpt::Excerpt;
use super::redaction::Redaction;
use super::source_text::{Origin, SourceLine, SourceTexts, Span};

/// The most problems that are kept; further ones are counted.
const MAX_PROBLEMS_SHOWN: usize = 100;

/// The problems found so far.
pub(super) struct ProblemCollector<'i> {
    pub(super) texts: &'i SourceTexts,
    redaction: Redaction,
    found: RefCell<Vec<Found>>,
    /// Settings with a problem. A setting that is misspelt or invalid is not reported as missing too.
    named: RefCell<BTreeSet<String>>,
}

/// A problem whose line is not looked up yet. Only the problems that are kept need that.
struct Found {
    span: Span,
    setting: String,
    what: String,
}

impl<'i> ProblemCollector<'i> {
    pub(super) fn new(texts: &'i SourceTexts, redaction: Redaction) -> Self {
        Self { texts, redaction, found: RefCell::default(), named: RefCell::default() }
    }

    /// Adds a problem with the setting at this place.
    pub(super) fn add(&self, span: &Span, setting: &str, what: impl Into<String>) {
        self.excuse(setting.to_owned());
        let (setting, what) = (setting.to_owned(), what.into());
        self.found.borrow_mut().push(Found { span: span.clone(), setting, what });
    }

    /// Adds the problem that a setting is missing, unless the setting has a problem already or the file is not TOML.
    pub(super) fn missing(&self, span: &Span, setting: &str, what: impl Into<String>) {
        if !self.concerns(setting) && !self.redaction.is_broken {
            self.add(span, setting, what);
        }
    }

    /// Whether this setting, or one within it, has a problem.
    pub(super) fn concerns(&self, setting: &str) -> bool {
        let named = self.named.borrow();
        let mut behind = named.range(setting.to_owned()..).map_while(|named| named.strip_prefix(setting));
        behind.any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Suppresses the problem that this setting is missing, because it is there with a misspelt name.
    pub(super) fn excuse(&self, setting: String) {
        self.named.borrow_mut().insert(setting);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All problems, by place; those at the same place in the order in which they were found.
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
