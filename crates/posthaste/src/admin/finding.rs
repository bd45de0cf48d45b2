//! Findings: problems of an outbox, and what to do about them.

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// A stable name of the kind of problem, such as `paused-route`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A problem that has effects now.
    pub fn problem(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Problem, what: what.into(), advice: advice.into() }
    }

    /// A problem that will have effects.
    pub fn warning(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, what: what.into(), advice: advice.into() }
    }

    /// Information.
    pub fn note(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Note, what: what.into(), advice: advice.into() }
    }
}

/// The severity of a finding. Exhaustive: three levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Note,
    /// Will have effects.
    Warning,
    /// Has effects now.
    Problem,
}
