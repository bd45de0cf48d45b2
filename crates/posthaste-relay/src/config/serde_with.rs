//! Functions for serde's `serialize_with`, for values of a configuration.

use std::time::Duration;

use posthaste_admin::Secret;
use serde::{Serialize as _, Serializer};

/// A duration or an optional duration, as in `1m 30s`.
pub(super) fn duration<S: Serializer>(
    value: &(impl Copy + Into<Option<Duration>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let duration: Option<Duration> = (*value).into();
    duration.map(|duration| humantime::format_duration(duration).to_string()).serialize(serializer)
}

pub(super) fn headers<S: Serializer>(headers: &[(String, Secret)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, value)))
}
