//! What looks wrong with an outbox, and what to do about it.

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about, in a word that stays the same from release to release, such as `paused-route`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding that hurts now.
    pub fn problem(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Problem, what: what.into(), advice: advice.into() }
    }

    /// A finding that will hurt some day.
    pub fn warning(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Warning, what: what.into(), advice: advice.into() }
    }

    /// A finding that is worth knowing.
    pub fn note(code: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { code, severity: Severity::Note, what: what.into(), advice: advice.into() }
    }
}

/// How bad a finding is. Exhaustive: a scale of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Will hurt some day.
    Warning,
    /// Hurts now.
    Problem,
}
