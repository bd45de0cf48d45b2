//! Texts for operators: escaped and cut to one short line.

/// The longest text in characters. Reasons are shown on one line and may contain values of an event of any length.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// Turns an external text into one short line: control characters are escaped, and a long text is cut with `…`.
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
