//! Why an event can never be sent: it is dead before the destination is asked.

use posthaste::Outcome;

use crate::one_line::one_line;

/// Why an event can never be sent. It is dead with this reason, and the destination was not asked, so the
/// reason says nothing about whether the destination is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unsendable(String);

impl Unsendable {
    /// `reason` may hold values of the event, but neither its payload nor the value of a header.
    pub(crate) fn new(reason: impl AsRef<str>) -> Self {
        Self(one_line(reason))
    }

    /// The event has so many bytes, and the destination takes fewer.
    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        Self::new(format!("too large: the message would have {bytes} bytes, and {most} is the most"))
    }
}

impl From<Unsendable> for Outcome {
    fn from(unsendable: Unsendable) -> Self {
        Outcome::Unsendable(unsendable.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_line::MAX_LINE_CHARS;

    /// Nothing was sent, so it must not count as an answer of the destination.
    #[test]
    fn refused_event_is_unsendable() {
        let outcome = Outcome::from(Unsendable::new("a blank in its topic"));
        assert!(matches!(&outcome, Outcome::Unsendable(why) if why == "a blank in its topic"), "{outcome:?}");
    }

    #[test]
    fn reason_is_one_short_line() {
        let reason = Unsendable::new(format!("a\r\nb{}", "x".repeat(1_000))).to_string();
        assert!(reason.starts_with(r"a\r\nbxxx"), "{reason}");
        assert!(reason.ends_with("x…"), "{reason}");
        assert_eq!(reason.chars().count(), MAX_LINE_CHARS + 1);
    }
}
