//! What an INSERT writes, whatever the database.

use std::time::Duration;

use posthaste::Event;
use posthaste::writer::NewRow;

/// How long after the statement the row is due.
pub(crate) fn due_in(row: &NewRow) -> Duration {
    match &row.lease {
        Some(lease) => lease.duration,
        None => row.delay.unwrap_or_default(),
    }
}

/// Who the row is born leased to.
pub(crate) fn owner(row: &NewRow) -> Option<&str> {
    row.lease.as_ref().map(|lease| lease.owner.as_str())
}

pub(crate) fn token(row: &NewRow) -> i64 {
    row.lease.as_ref().map_or(0, |lease| lease.token.as_i64())
}

/// A payload that a person with a database shell can read stays readable; a media type says that it is
/// not ours to look into. Text with a NUL in it would be cut short or refused.
pub(crate) fn text_payload(event: &Event) -> Option<&str> {
    let text = std::str::from_utf8(event.payload()).ok().filter(|text| !text.contains('\0'));
    text.filter(|_| event.content_type().is_none())
}

pub(crate) fn headers_json(event: &Event) -> Option<String> {
    // A map of text to text always has a JSON form.
    (!event.headers().is_empty()).then(|| serde_json::to_string(event.headers()).unwrap_or_default())
}
