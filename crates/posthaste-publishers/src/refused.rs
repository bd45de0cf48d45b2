//! Events that can never be sent.

use posthaste::Outcome;

/// Why an event can never be sent. It is dead with this reason, and the destination was not asked, so the
/// reason says nothing about whether the destination is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

/// An operator reads reasons as one line, and values of an event stand in them.
const LONGEST: usize = 300;

impl Refused {
    /// `reason` may hold values of the event, but neither its payload nor the value of a header.
    pub(crate) fn new(reason: impl AsRef<str>) -> Self {
        Self(one_line(reason))
    }

    /// The event has so many bytes, and the destination takes fewer.
    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        Self::new(format!("too large: the message would have {bytes} bytes, and {most} is the most"))
    }
}

/// A text of somebody else's as operators read it: one short line without control characters.
pub(crate) fn one_line(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let escaped = text.chars().flat_map(|c| {
        let plain = (!c.is_control()).then_some(c);
        plain.into_iter().chain(plain.is_none().then(|| c.escape_default()).into_iter().flatten())
    });
    let mut line: String = escaped.take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        line.push('…');
    }
    line
}

impl From<Refused> for Outcome {
    fn from(refused: Refused) -> Self {
        Outcome::Unsendable(refused.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing was sent, so it must not count as an answer of the destination.
    #[test]
    fn refused_event_is_unsendable() {
        let outcome = Outcome::from(Refused::new("a blank in its topic"));
        assert!(matches!(&outcome, Outcome::Unsendable(why) if why == "a blank in its topic"), "{outcome:?}");
    }

    #[test]
    fn reason_is_one_short_line() {
        let reason = Refused::new(format!("a\r\nb{}", "x".repeat(1_000))).to_string();
        assert!(reason.starts_with(r"a\r\nbxxx"), "{reason}");
        assert!(reason.ends_with("x…"), "{reason}");
        assert_eq!(reason.chars().count(), LONGEST + 1);
    }
}
