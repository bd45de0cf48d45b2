//! The error for a publisher that cannot be built.

/// A setting of a publisher is wrong. The text names the setting and how to write it. It never repeats the user's
/// input, which may contain a password.
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

    /// Adds the error of the client library as the source.
    #[allow(dead_code, reason = "not every publisher's library refuses settings")]
    pub(crate) fn because(mut self, source: impl Into<posthaste::BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }
}
