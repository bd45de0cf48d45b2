//! Makes texts from the store safe for a terminal: a type, a reason or a payload may hold characters
//! that move the cursor, recolour the screen or turn the reading direction.

use std::fmt::Write as _;

/// One line: line breaks are escaped as well, so that a text cannot pretend to be two rows.
pub fn one_line(text: &str) -> String {
    escape(text, |c, out| write!(out, "{}", c.escape_default()))
}

/// Several lines: line breaks stay.
pub fn lines(text: &str) -> String {
    escape(text, |c, out| match c {
        '\n' => out.write_char(c),
        c => write!(out, "{}", c.escape_default()),
    })
}

/// A JSON document: the same value in other characters. Outside of its strings it has no such
/// character but line breaks, which stay.
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

/// Whether a terminal may act on a character, or show nothing, instead of drawing it: controls, line
/// separators, marks of direction, and fillers without width. The two joiners of emoji and of
/// Persian stay.
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
    fn nothing_that_acts_reaches_a_terminal() {
        let hostile = "a\x1b[31mb\rc\nd\te\u{9b}2Jf\u{202e}g\0h\x7f";
        assert_eq!(one_line(hostile), r"a\u{1b}[31mb\rc\nd\te\u{9b}2Jf\u{202e}g\u{0}h\u{7f}");
        assert!(!lines(hostile).chars().any(|c| acts(c) && c != '\n'));
        assert!(lines(hostile).contains("c\nd"));
    }

    #[test]
    fn people_keep_their_letters() {
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
