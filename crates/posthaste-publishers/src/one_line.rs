//! Texts that others wrote, cut to one short line for operators.

/// An operator reads reasons as one line, and values of an event stand in them.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// A text of somebody else's as operators read it: one short line without control characters.
pub(crate) fn one_line(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let escaped = text.chars().flat_map(|c| {
        let plain = (!c.is_control()).then_some(c);
        plain.into_iter().chain(plain.is_none().then(|| c.escape_default()).into_iter().flatten())
    });
    let mut line: String = escaped.take(MAX_LINE_CHARS).collect();
    if text.chars().count() > MAX_LINE_CHARS {
        line.push('…');
    }
    line
}
