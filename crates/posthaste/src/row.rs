//! Rows as operators see them: status, counters and times of an event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::value::RawValue;

use crate::event::{Event, EventId, Headers};
use crate::time::Timestamp;

/// The state of an event. Exhaustive: the codes are part of the table's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[repr(i16)]
pub enum Status {
    /// Waiting: it has not failed yet, or was deferred since.
    New = 0,
    /// Delivered.
    Done = 1,
    /// Failed, due again later.
    Retry = 2,
    /// Given up: visible, and waiting for an operator.
    Dead = 3,
    /// Kept in the archive only.
    Archived = 4,
}

impl Status {
    /// The code in the `status` column.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The status of a code; `None` for an unknown code.
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::New),
            1 => Some(Self::Done),
            2 => Some(Self::Retry),
            3 => Some(Self::Dead),
            4 => Some(Self::Archived),
            _ => None,
        }
    }

    /// Whether it may still be delivered.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::New | Self::Retry)
    }

    /// The name, in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Done => "DONE",
            Self::Retry => "RETRY",
            Self::Dead => "DEAD",
            Self::Archived => "ARCHIVED",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Everything in a row except the payload and the headers.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct EventRow {
    /// The number of the insertion, and the key for paging.
    pub seq: i64,
    /// The event's id.
    pub id: EventId,
    /// The event's type.
    pub event_type: String,
    /// Its aggregate's type.
    pub aggregate_type: String,
    /// Its aggregate's id.
    pub aggregate_id: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// The payload's size in bytes.
    pub payload_bytes: u64,
    /// Its status. A row with an unknown code shows as NEW and says so in `malformed`.
    pub status: Status,
    /// Failed attempts.
    pub attempts: u32,
    /// How often its handler deferred it.
    pub deferrals: u32,
    /// How many of its leases were lost.
    pub lost_leases: u32,
    /// How often an operator replayed it.
    pub replays: u32,
    /// What it is parked for: see [`ParkReason`](crate::admin::ParkReason).
    pub parked: Option<String>,
    /// Destinations of a fan-out that have it already.
    pub progress: BTreeSet<String>,
    /// When it is due: when it was inserted, after its delay, or at its next attempt. On Redis, a held row shows the
    /// end of its lease here, because the store keeps one time only.
    pub available_at: Timestamp,
    /// When the lease of the owner that holds it ends. `None` if no owner holds it.
    pub lease_until: Option<Timestamp>,
    /// When it happened, by its producer's clock.
    pub created_at: Timestamp,
    /// When it was inserted, by the store's clock.
    pub inserted_at: Timestamp,
    /// When it became DONE or DEAD.
    pub done_at: Option<Timestamp>,
    /// Why it failed last, or died.
    pub last_error: Option<String>,
    /// The owner that holds it.
    pub locked_by: Option<String>,
    /// When the owner leased it.
    pub locked_at: Option<Timestamp>,
    /// What could not be read in this row; `None` if everything could.
    pub malformed: Option<String>,
}

impl EventRow {
    /// A row with its identity only: every other field is empty, and its status is NEW.
    pub fn new(seq: i64, id: impl Into<EventId>) -> Self {
        Self {
            seq,
            id: id.into(),
            event_type: String::new(),
            aggregate_type: String::new(),
            aggregate_id: None,
            tenant_id: None,
            payload_bytes: 0,
            status: Status::New,
            attempts: 0,
            deferrals: 0,
            lost_leases: 0,
            replays: 0,
            parked: None,
            progress: BTreeSet::new(),
            available_at: Timestamp::default(),
            lease_until: None,
            created_at: Timestamp::default(),
            inserted_at: Timestamp::default(),
            done_at: None,
            last_error: None,
            locked_by: None,
            locked_at: None,
            malformed: None,
        }
    }

    /// The row of this event, with the event's names and times and the size of its payload.
    pub fn of(seq: i64, event: &Event) -> Self {
        Self {
            event_type: event.event_type().to_owned(),
            aggregate_type: event.aggregate_type().to_owned(),
            aggregate_id: event.aggregate_id().map(str::to_owned),
            tenant_id: event.tenant_id().map(str::to_owned),
            payload_bytes: event.payload().len() as u64,
            created_at: event.occurred_at(),
            ..Self::new(seq, event.id().clone())
        }
    }
}

/// A row together with its event, payload included.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventDetail {
    /// What the row knows.
    pub row: EventRow,
    /// The event. Fields that cannot be read are empty, and `row.malformed` names them.
    pub event: Event,
}

impl EventDetail {
    /// A row with its event.
    pub fn new(row: EventRow, event: Event) -> Self {
        Self { row, event }
    }
}

/// Reads the headers of a row: a JSON object of names to text. `None`, blank text and `null` mean no headers. Producers
/// in other languages write other values, too: a header that is `null` is ignored, and a number, `true` or `false`
/// becomes its text. The error says what is wrong without quoting the headers, which may contain secrets.
///
/// ```
/// use posthaste::decode_headers;
///
/// assert!(decode_headers(Some("null")).unwrap().is_empty());
/// let headers = decode_headers(Some(r#"{"region":"eu","user":null,"try":2}"#)).unwrap();
/// assert_eq!((headers["region"].as_str(), headers["try"].as_str(), headers.len()), ("eu", "2", 2));
/// assert!(decode_headers(Some("[1]")).is_err());
/// ```
pub fn decode_headers(text: Option<&str>) -> Result<Headers, String> {
    let text = text.unwrap_or_default().trim();
    if text.is_empty() || text == "null" {
        return Ok(Headers::new());
    }
    // Almost all headers are text to text, which one pass reads.
    serde_json::from_str(text).or_else(|error| match error.is_data() {
        true => decode_values(text),
        false => Err(format!(
            "the headers are not JSON (column {}): set them to an object such as {{\"name\":\"text\"}}, then \
             replay the event",
            error.column()
        )),
    })
}

fn decode_values(text: &str) -> Result<Headers, String> {
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(|_| not_headers())?;
    let mut headers = Headers::new();
    for (name, value) in values {
        match value.get().as_bytes().first() {
            Some(b'n') => {}
            Some(b'"') => {
                headers.insert(name, serde_json::from_str(value.get()).map_err(|_| not_headers())?);
            }
            Some(b'[' | b'{') | None => return Err(not_headers()),
            Some(_) => {
                headers.insert(name, value.get().to_owned());
            }
        }
    }
    Ok(headers)
}

fn not_headers() -> String {
    "the headers are not a JSON object of names to text: one value is a list or an object; change \
     the headers of the row, then replay the event"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-18, S3-07, S3-30
    #[test]
    fn status_codes_and_names_are_the_documented_ones() {
        for (code, status, name) in [
            (0, Status::New, "NEW"),
            (1, Status::Done, "DONE"),
            (2, Status::Retry, "RETRY"),
            (3, Status::Dead, "DEAD"),
            (4, Status::Archived, "ARCHIVED"),
        ] {
            assert_eq!(Status::from_code(code), Some(status));
            assert_eq!((i64::from(status.code()), status.to_string().as_str()), (code, name));
        }
        for unknown in [-1, 5, 256, i64::MIN, i64::MAX] {
            assert_eq!(Status::from_code(unknown), None);
        }
    }

    // S3-27
    #[test]
    fn nothing_blank_and_null_are_read_as_no_headers() {
        for text in [None, Some(""), Some(" \n"), Some("null"), Some(" null "), Some("{}")] {
            assert_eq!(decode_headers(text), Ok(Headers::new()), "{text:?}");
        }
    }

    /// What producers in Node and Python often write.
    #[test]
    fn headers_that_are_null_are_ignored_and_numbers_become_text() {
        let text =
            r#"{"trace":"x","user":null,"try":2,"ratio":-0.5,"big":12345678901234567890123,"on":true}"#;
        let headers = decode_headers(Some(text)).expect("readable");
        let read: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let big = ("big", "12345678901234567890123");
        assert_eq!(read, [big, ("on", "true"), ("ratio", "-0.5"), ("trace", "x"), ("try", "2")]);
    }

    #[test]
    fn headers_that_are_not_a_map_of_names_to_text_are_refused_without_quoting_them() {
        let nested = r#"{"a":{"sEcret":1}}"#;
        for text in [r#"{"a":"sEcret""#, r#"["sEcret"]"#, r#"{"sEcret":[1]}"#, nested, "sEcret", "7"] {
            let defect = decode_headers(Some(text)).expect_err(text);
            assert!(!defect.contains("sEcret"), "{defect}");
        }
    }
}
