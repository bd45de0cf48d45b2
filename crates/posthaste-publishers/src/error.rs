//! Why a publisher cannot be built, and what to do.

/// A setting of a publisher is wrong. Its text names the setting and what to write instead, and never a
/// password: what was typed may be one.
#[derive(Debug, thiserror::Error)]
#[error("{publisher}: {problem}")]
pub struct PublisherError {
    publisher: &'static str,
    problem: String,
    #[source]
    source: Option<posthaste::BoxError>,
}

impl PublisherError {
    pub(crate) fn new(publisher: &'static str, problem: impl Into<String>) -> Self {
        Self { publisher, problem: problem.into(), source: None }
    }

    /// The same with what the client library said.
    #[allow(dead_code, reason = "not every publisher's library refuses settings")]
    pub(crate) fn because(mut self, source: impl Into<posthaste::BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }
}
