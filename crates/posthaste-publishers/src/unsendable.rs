//! The error for an event that can never be sent, found before anything is sent.

use posthaste::Outcome;

use crate::operator_text::one_line;

/// The reason why an event can never be sent. The event is DEAD with this reason. Nothing was sent, so the
/// reason says nothing about whether the destination is reachable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unsendable(String);

impl Unsendable {
    /// Creates the error. `reason` may contain values of the event, but not its payload nor the value of a header.
    pub(crate) fn new(reason: impl AsRef<str>) -> Self {
        Self(one_line(reason))
    }

    /// The error for a message that is larger than the destination's limit.
    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        Self::new(format!("too large: the message would have {bytes} bytes, and at most {most} are allowed"))
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
    use crate::operator_text::MAX_LINE_CHARS;

    /// Nothing was sent, so it must not count as a reply of the destination.
    #[test]
    fn refused_event_is_unsendable() {
        let outcome = Outcome::from(Unsendable::new("its topic contains a space"));
        assert!(
            matches!(&outcome, Outcome::Unsendable(why) if why == "its topic contains a space"),
            "{outcome:?}"
        );
    }

    #[test]
    fn reason_is_one_short_line() {
        let reason = Unsendable::new(format!("a\r\nb{}", "x".repeat(1_000))).to_string();
        assert!(reason.starts_with(r"a\r\nbxxx"), "{reason}");
        assert!(reason.ends_with("x…"), "{reason}");
        assert_eq!(reason.chars().count(), MAX_LINE_CHARS + 1);
    }
}
