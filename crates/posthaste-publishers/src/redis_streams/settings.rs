//! The checked settings of a Redis Streams publisher.

use std::time::Duration;

use redis::Client;

use super::allowed_topics::AllowedTopics;
use crate::redacted::Redacted;
use crate::settings::CommonSettings;
use crate::template::Template;

/// The shortest limit for a whole call. Below the route's default timeout: when a route ends a call, the replies
/// that have arrived are lost.
const CALL_TIMEOUT: Duration = crate::settings::DEFAULT_TIMEOUT;

/// Settings that the builder has checked. They do not change afterwards.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) common: CommonSettings,
    pub(super) client: Redacted<Client>,
    /// `host:port`, for error texts.
    pub(super) server: String,
    pub(super) stream: Template,
    pub(super) topics: AllowedTopics,
    /// How many entries a stream keeps; `None` for all.
    pub(super) max_length: Option<usize>,
    /// Whether `max_length` is approximate (`MAXLEN ~`).
    pub(super) approximate: bool,
}

impl Settings {
    /// How long a whole call may take. A call may consist of several pipelines, each with the publisher's own
    /// timeout.
    pub(super) fn call_timeout(&self) -> Duration {
        self.common.timeout.max(CALL_TIMEOUT)
    }
}
