//! Excerpt: the part of a line that is shown with a problem, and the carets below it.

use std::fmt;

use super::source_text::{SourceLine, characters};

/// The most characters of a line that are shown.
const MAX_EXCERPT_CHARS: usize = 120;

/// A part of a line, and the characters of it that the problem is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The number of the line, from 1.
    line: usize,
    text: String,
    /// How many characters are before the first caret.
    caret: usize,
    /// How many carets there are: at least 1.
    carets: usize,
}

impl Excerpt {
    /// The excerpt of a line of which the first `visible` bytes may be shown; `None` if nothing is left to show.
    pub(super) fn new(line: &SourceLine<'_>, visible: usize) -> Option<Self> {
        let (shown, behind) = line.text.split_at(visible);
        let caret = characters(line.text, line.range.start.min(visible));
        if shown.trim().is_empty() || caret >= MAX_EXCERPT_CHARS {
            return None;
        }
        let mut text: String = shown.chars().take(MAX_EXCERPT_CHARS).map(printed).collect();
        text.truncate(text.trim_end().len());
        let behind = behind.trim();
        if !behind.is_empty() && !behind.starts_with('#') {
            let gap = caret.saturating_sub(text.chars().count()).max(usize::from(text.ends_with('=')));
            text.push_str(&" ".repeat(gap));
            text.push('…');
        }
        let end = characters(line.text, line.range.end.min(visible));
        let carets = end.saturating_sub(caret).clamp(1, MAX_EXCERPT_CHARS);
        Some(Self { line: line.number, text, caret, carets })
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.to_string();
        let margin = " ".repeat(line.len());
        let (before, carets) = (" ".repeat(self.caret), "^".repeat(self.carets));
        write!(f, "\n  {line} | {}\n  {margin} | {before}{carets}", self.text)
    }
}

fn printed(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}
