//! Escapes text from the store for a terminal. A type, a reason or a payload may contain characters that move the
//! cursor, change colours or reverse the reading direction.

use std::fmt::Write as _;

/// Escapes to one line. Line breaks are escaped too, so that one text cannot look like two rows.
pub fn one_line(text: &str) -> String {
    escape(text, |c, out| write!(out, "{}", c.escape_default()))
}

/// Escapes to several lines: line breaks stay.
pub fn lines(text: &str) -> String {
    escape(text, |c, out| match c {
        '\n' => out.write_char(c),
        c => write!(out, "{}", c.escape_default()),
    })
}

/// Escapes a JSON document with `\u` sequences, so that its value stays the same. Only its strings can contain such
/// characters, except for line breaks, which stay.
pub fn json(document: &str) -> String {
    escape(document, |c, out| match c {
        '\n' => out.write_char(c),
        c => c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
    })
}

fn escape(text: &str, write: impl Fn(char, &mut String) -> std::fmt::Result) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            // Writing to a String cannot fail.
            let _ = write(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a terminal may interpret a character or show nothing for it: controls, line separators, direction marks and
/// zero-width fillers. The two joiners (U+200C, U+200D) are drawn, because Persian and emoji need them.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_interprets_are_escaped() {
        let hostile = "a\x1b[31mb\rc\nd\te\u{9b}2Jf\u{202e}g\0h\x7f";
        assert_eq!(one_line(hostile), r"a\u{1b}[31mb\rc\nd\te\u{9b}2Jf\u{202e}g\u{0}h\u{7f}");
        assert!(!lines(hostile).chars().any(|c| acts(c) && c != '\n'));
        assert!(lines(hostile).contains("c\nd"));
    }

    #[test]
    fn letters_of_every_language_stay() {
        let text = "Überweisung „naïve“ 注文 👩\u{200d}🚀 می\u{200c}خواهم";
        assert_eq!(one_line(text), text);
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({ "k\u{9b}": "\u{202e}x\u{7f}\u{e0041}\n" });
        let escaped = json(&value.to_string());
        assert!(!escaped.chars().any(acts), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
