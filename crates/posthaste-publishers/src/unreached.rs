//! The error of a check: why the other side is out of reach, and what to do about it.

use posthaste::admin::Finding;

use crate::one_line::one_line;

/// What to do about a server that does not answer at all.
pub(crate) const UNREACHABLE_ADVICE: &str = "check host, port and TLS, and that it runs";

/// Why the other side is out of reach, in one line for operators, which says what to do and tells no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreached(String);

impl Unreached {
    /// For this reason, of which one line is kept. It may hold hosts and names, but no password.
    pub fn new(why: impl AsRef<str>) -> Self {
        Self(one_line(why))
    }
}

impl From<Unreached> for Finding {
    fn from(Unreached(why): Unreached) -> Self {
        Self::problem(
            "destination-unreachable",
            why,
            "mend that first: nothing else can be said of it until it answers",
        )
    }
}
