//! Wraps lines between words, so that their number is known before they are drawn.

use ratatui::text::{Line, Span};

/// Wraps each line. A word that is longer than a line is broken.
pub(super) fn wrapped(lines: impl IntoIterator<Item = Line<'static>>, width: u16) -> Vec<Line<'static>> {
    let broken = |line: Line<'static>| {
        let style = line.style;
        broken(&line.to_string(), width.max(1).into()).into_iter().map(move |text| Line::styled(text, style))
    };
    lines.into_iter().flat_map(broken).collect()
}

fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        if !fits(&lines, word.trim_end(), width) {
            lines.push(String::new());
        }
        add(&mut lines, word, width);
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Whether the word fits into the last line. An empty line takes any word.
fn fits(lines: &[String], word: &str, width: usize) -> bool {
    let taken = lines.last().map_or(0, |line| Span::raw(line).width());
    taken == 0 || taken + Span::raw(word).width() <= width
}

fn add(lines: &mut Vec<String>, word: &str, width: usize) {
    for c in word.chars() {
        if c != ' ' && !fits(lines, c.encode_utf8(&mut [0; 4]), width) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_and_within_long_words() {
        assert_eq!(broken("one two three", 8), ["one two", "three"]);
        assert_eq!(broken("one two", 7), ["one two"]);
        assert_eq!(broken("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(broken("注文注文", 5), ["注文", "注文"]);
        assert_eq!(broken("", 5), [""]);
        assert_eq!(broken("ab", 1), ["a", "b"]);
    }
}
