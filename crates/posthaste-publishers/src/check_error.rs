//! The error of `Publisher::check`.

use posthaste::admin::Finding;

use crate::operator_text::one_line;

/// The next step for an operator when a server does not respond.
pub(crate) const UNREACHABLE_ADVICE: &str = "check host, port and TLS, and that it runs";

/// The reason why a destination is unreachable: one line for operators that includes the next step and no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CheckError(String);

impl CheckError {
    /// Creates the error from a reason, cut to one line. The reason may contain hosts and names, but no password.
    pub fn new(why: impl AsRef<str>) -> Self {
        Self(one_line(why))
    }
}

impl From<CheckError> for Finding {
    fn from(CheckError(why): CheckError) -> Self {
        Self::problem(
            "destination-unreachable",
            why,
            "fix this first: nothing else can be checked until the destination responds",
        )
    }
}
