//! Escaping of names inside the state text of a row, where some characters are separators.

use std::borrow::Cow;

/// The separators of a state text, and `%` itself.
const ESCAPED_CHARS: [char; 5] = ['%', ',', ' ', '\t', '\n'];

pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    if !name.contains(ESCAPED_CHARS) {
        return Cow::Borrowed(name);
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            ',' => escaped.push_str("%2C"),
            ' ' => escaped.push_str("%20"),
            '\t' => escaped.push_str("%09"),
            '\n' => escaped.push_str("%0A"),
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

pub(crate) fn unescape(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    // `%25` last: replaced first, it could create new escapes.
    text.replace("%2C", ",").replace("%20", " ").replace("%09", "\t").replace("%0A", "\n").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn unescape_reverses_escape(name in "[%,\t\n0-9A-Ca-c é]{0,20}") {
            let escaped = escape(&name);
            prop_assert!(!escaped.contains([',', ' ', '\t', '\n']));
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
