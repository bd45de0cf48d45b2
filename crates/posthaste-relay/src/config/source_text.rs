//! Source texts: the file, the options and the variables of a configuration, as if they were concatenated. One range of
//! bytes therefore names both a text and a place in it.

use std::ops::Range;

/// A range of bytes in the concatenation of all texts.
pub(super) type Span = Range<usize>;

/// The origin of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The file, with the path that was given.
    File(String),
    /// A variable of the environment, by name. Its value is never shown.
    Variable(String),
    /// An option of the command line, by name. Its value is never shown.
    Flag(&'static str),
}

impl Origin {
    /// The path of the file, or the name of the variable or the option.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::File(name) | Self::Variable(name) => name,
            Self::Flag(name) => name,
        }
    }
}

/// One text.
pub(super) struct SourceText {
    pub(super) origin: Origin,
    pub(super) text: String,
    /// The place of its first byte in the concatenation.
    pub(super) start: usize,
}

/// All texts of one configuration, in the order of their places.
#[derive(Default)]
pub(super) struct SourceTexts(Vec<SourceText>);

/// A line of a text, and a range of bytes in it.
pub(super) struct SourceLine<'t> {
    /// Counted from 1.
    pub(super) number: usize,
    /// The place of its first byte in the concatenation.
    pub(super) start: usize,
    /// The line without its line break.
    pub(super) text: &'t str,
    /// Within `text`.
    pub(super) range: Range<usize>,
}

impl SourceTexts {
    /// Adds a text at the end.
    pub(super) fn add(&mut self, origin: Origin, text: String) {
        // One byte between two texts, so that the end of one is not the start of the next.
        let start = self.0.last().map_or(0, |last| last.start + last.text.len() + 1);
        self.0.push(SourceText { origin, text, start });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SourceText> {
        self.0.iter()
    }

    /// The text that contains the start of a range.
    pub(super) fn find(&self, span: &Span) -> Option<&SourceText> {
        self.0.iter().find(|text| (text.start..=text.start + text.text.len()).contains(&span.start))
    }
}

impl SourceText {
    /// The place of the whole text.
    pub(super) fn span(&self) -> Span {
        self.start..self.start + self.text.len()
    }

    /// The line that contains the start of a range, with the part of the range that is in the line.
    pub(super) fn line(&self, span: &Span) -> SourceLine<'_> {
        let at = span.start.saturating_sub(self.start).min(self.text.len());
        let before = &self.text.as_bytes()[..at];
        let number = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = self.text[start..].split('\n').next().unwrap_or_default();
        let text = text.strip_suffix('\r').unwrap_or(text);
        let from = (at - start).min(text.len());
        let to = span.end.saturating_sub(self.start + start).clamp(from, text.len());
        SourceLine { number, start: self.start + start, text, range: from..to }
    }
}

impl SourceLine<'_> {
    /// The start of the range in characters, counted from 1.
    pub(super) fn column(&self) -> usize {
        characters(self.text, self.range.start) + 1
    }
}

/// The number of characters that begin before this byte.
pub(super) fn characters(text: &str, end: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < end).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_text_line_and_character() {
        let mut texts = SourceTexts::default();
        texts.add(Origin::File("a".to_owned()), "x = 1\r\ngrün = 22\n".to_owned());
        texts.add(Origin::Flag("--b"), "abc".to_owned());
        let span = 15..17;
        let text = texts.find(&span).unwrap();
        let line = text.line(&span);
        assert_eq!((line.number, line.column(), line.text), (2, 8, "grün = 22"));
        assert_eq!(&line.text[line.range], "22");
        assert_eq!(texts.find(&(19..20)).unwrap().origin, Origin::Flag("--b"));
        assert!(texts.find(&(1000..1001)).is_none());
    }
}
