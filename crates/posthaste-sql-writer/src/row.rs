//! The values that an INSERT binds, the same for every database.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use posthaste::Event;
use posthaste::writer::NewRow;

/// The values of one row, ready to be bound. Made by [`postgres::values`](crate::postgres::values),
/// [`mysql::values`](crate::mysql::values) and [`sqlite::values`](crate::sqlite::values), which clamp times to the
/// range of their database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowValues<'r> {
    /// The event's id.
    pub event_id: &'r str,
    /// The event's type.
    pub event_type: &'r str,
    /// The type of the aggregate that the event is about.
    pub aggregate_type: &'r str,
    /// The id of the aggregate.
    pub aggregate_id: Option<&'r str>,
    /// The tenant that the event belongs to.
    pub tenant_id: Option<&'r str>,
    /// The topic of the event, which overrides that of its route.
    pub topic: Option<&'r str>,
    /// The media type of the payload; `None` for JSON text.
    pub content_type: Option<&'r str>,
    /// The version of the payload's schema.
    pub schema_version: Option<i64>,
    /// The headers as a JSON object.
    pub headers: Option<String>,
    /// The payload, if it is stored as text.
    pub payload_text: Option<&'r str>,
    /// The payload, if it is stored as bytes.
    pub payload_bytes: Option<&'r [u8]>,
    /// When the event happened, in microseconds since 1970.
    pub created_at: i64,
    /// The delay from the statement until the row is due, in microseconds; at most a thousand years, so that every
    /// database can store the result.
    pub due_in: i64,
    /// The engine that the row is born leased to; `None` without a lease.
    pub owner: Option<&'r str>,
    /// The token of that lease; zero without one.
    pub token: i64,
    /// The time from the statement until that lease ends, in microseconds; `None` without a lease.
    pub lease_for: Option<i64>,
}

impl<'r> RowValues<'r> {
    pub(crate) fn of(row: &'r NewRow) -> Self {
        let parts = row.event.parts();
        let text = text_payload(&row.event);
        Self {
            event_id: parts.id.as_str(),
            event_type: &parts.event_type,
            aggregate_type: &parts.aggregate_type,
            aggregate_id: parts.aggregate_id.as_deref(),
            tenant_id: parts.tenant_id.as_deref(),
            topic: parts.topic.as_deref(),
            content_type: parts.content_type.as_deref(),
            schema_version: parts.schema_version.map(i64::from),
            headers: headers_json(&row.event),
            payload_text: text,
            payload_bytes: text.is_none().then_some(&*parts.payload),
            created_at: parts.occurred_at.as_micros(),
            due_in: bounded_micros(row.delay.unwrap_or_default()),
            owner: row.lease.as_ref().map(|lease| lease.owner.as_str()),
            token: row.lease.as_ref().map_or(0, |lease| lease.token.as_i64()),
            lease_for: row.lease.as_ref().map(|lease| bounded_micros(lease.duration)),
        }
    }
}

/// A value that every driver can bind; `None` is NULL.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `RowValues`")]
pub enum RowValue<'r> {
    Text(Option<Cow<'r, str>>),
    Int(Option<i64>),
    Bytes(Option<&'r [u8]>),
}

impl<'r> From<&'r str> for RowValue<'r> {
    fn from(text: &'r str) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl<'r> From<Option<&'r str>> for RowValue<'r> {
    fn from(text: Option<&'r str>) -> Self {
        Self::Text(text.map(Cow::from))
    }
}

impl From<String> for RowValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl From<i64> for RowValue<'_> {
    fn from(int: i64) -> Self {
        Self::Int(Some(int))
    }
}

impl<'r> RowValues<'r> {
    /// The fields in their order, as the statements of every database take them.
    pub fn in_order(self) -> [RowValue<'r>; 16] {
        [
            self.event_id.into(),
            self.event_type.into(),
            self.aggregate_type.into(),
            self.aggregate_id.into(),
            self.tenant_id.into(),
            self.topic.into(),
            self.content_type.into(),
            RowValue::Int(self.schema_version),
            RowValue::Text(self.headers.map(Cow::from)),
            self.payload_text.into(),
            RowValue::Bytes(self.payload_bytes),
            self.created_at.into(),
            self.due_in.into(),
            self.owner.into(),
            self.token.into(),
            RowValue::Int(self.lease_for),
        ]
    }
}

/// The `seq` of each row, given the pairs that a statement returned; `None` where the id existed already.
///
/// The pairs have no order, and an id that is in one batch twice was inserted once.
pub fn seqs_by_id(rows: &[NewRow], mut inserted: HashMap<String, i64>) -> Vec<Option<i64>> {
    rows.iter().map(|row| inserted.remove(row.event.id().as_str())).collect()
}

fn bounded_micros(time: Duration) -> i64 {
    const MAX_MICROS: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
    i64::try_from(time.as_micros()).map_or(MAX_MICROS, |micros| micros.min(MAX_MICROS))
}

/// The payload as text, if it is text without a media type: then it stays readable in a database shell. A media type
/// means that the payload is opaque. Text that contains NUL is stored as bytes, because databases truncate or refuse
/// it.
fn text_payload(event: &Event) -> Option<&str> {
    let text = std::str::from_utf8(event.payload()).ok().filter(|text| !text.contains('\0'));
    text.filter(|_| event.content_type().is_none())
}

fn headers_json(event: &Event) -> Option<String> {
    // A map of text to text always has a JSON form.
    (!event.headers().is_empty()).then(|| serde_json::to_string(event.headers()).unwrap_or_default())
}
