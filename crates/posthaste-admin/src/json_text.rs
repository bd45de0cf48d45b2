//! JSON text: compact and pretty layout of a document without parsing it into values. Numbers keep their digits,
//! objects keep their order and their repeated names.

use serde::de::IgnoredAny;

/// Returns the text of these bytes if they are one JSON document.
pub fn document(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(text)
}

/// The document on one line, without white space. The text must be valid JSON.
pub fn compact(document: &str) -> String {
    lay_out(document, |_, _| {})
}

/// The document on many lines, indented by two spaces per level. The text must be valid JSON.
pub fn pretty(document: &str) -> String {
    lay_out(document, |out, position| match position {
        SpacePosition::Line { depth } => {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT)));
        }
        SpacePosition::Gap => out.push(' '),
    })
}

/// The deepest indentation, in levels. Without it a payload of a million brackets would become terabytes of spaces.
const MAX_INDENT: usize = 32;

/// A position at which a layout may insert white space.
enum SpacePosition {
    /// Before the start of a line.
    Line { depth: usize },
    /// After a colon.
    Gap,
}

/// Removes the white space of the document and calls `space` at every position where some may be inserted.
fn lay_out(document: &str, space: impl Fn(&mut String, SpacePosition)) -> String {
    let mut out = String::with_capacity(document.len());
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut opened = false;
    for c in document.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        // An empty object or array stays on its line.
        if opened != closes {
            space(&mut out, SpacePosition::Line { depth });
        }
        opened = false;
        out.push(c);
        match c {
            '"' => in_string = true,
            '{' | '[' => {
                depth += 1;
                opened = true;
            }
            ',' => space(&mut out, SpacePosition::Line { depth }),
            ':' => space(&mut out, SpacePosition::Gap),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_changes_only_white_space() {
        let text = r#" {"b":[1, 2.50 ,{"x" : "a\\\" {,: "}],"a" :{ },
            "b":12345678901234567890123 ,"e": [ ]}"#;
        let line = r#"{"b":[1,2.50,{"x":"a\\\" {,: "}],"a":{},"b":12345678901234567890123,"e":[]}"#;
        assert_eq!(compact(document(text.as_bytes()).unwrap()), line);
        let page = r#"{
  "b": [
    1,
    2.50,
    {
      "x": "a\\\" {,: "
    }
  ],
  "a": {},
  "b": 12345678901234567890123,
  "e": []
}"#;
        assert_eq!(pretty(text), page);
        assert_eq!(compact(page), line);
    }

    #[test]
    fn other_bytes_are_not_a_document() {
        for bytes in [&b""[..], b"{", b"1 2", b"\xff", b"{'a':1}"] {
            assert_eq!(document(bytes), None);
        }
        assert_eq!(pretty("7"), "7");
    }

    #[test]
    fn size_of_deep_nesting_is_proportional_to_its_length() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let text = document(deep.as_bytes()).unwrap();
        assert_eq!(compact(text), deep);
        assert!(pretty(text).len() < 70 * deep.len());
    }
}
