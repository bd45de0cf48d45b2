//! Rows as another program may write them: the columns as they are, valid or not.

use bytes::Bytes;

use crate::event::{EventId, GLOBAL};
use crate::time::Timestamp;

/// The columns of one row, unchecked, for [`MemoryStore::insert_raw`](super::MemoryStore::insert_raw).
///
/// The default is a valid row: a new id, an empty JSON object as payload, due immediately.
///
/// ```
/// use posthaste::memory::{MemoryStore, RawRow};
///
/// let store = MemoryStore::new();
/// store.insert_raw(RawRow::default().with_headers("not JSON"));
/// assert_eq!(store.len(), 1);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawRow {
    /// The event's id.
    pub id: EventId,
    /// Its type. Default: `Raw`.
    pub event_type: String,
    /// Its aggregate's type. Default: [`GLOBAL`].
    pub aggregate_type: String,
    /// Its aggregate's id.
    pub aggregate_id: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// Its topic.
    pub topic: Option<String>,
    /// The media type of a binary payload.
    pub content_type: Option<String>,
    /// The version of the payload's schema.
    pub schema_version: Option<u32>,
    /// The payload. `None` makes the row malformed.
    pub payload: Option<Bytes>,
    /// The headers as JSON text; see [`decode_headers`](crate::decode_headers).
    pub headers: Option<String>,
    /// The status code. Default: 0, NEW.
    pub status: i64,
    /// Failed attempts.
    pub attempts: i64,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it is due. Default: now.
    pub available_at: Option<Timestamp>,
    /// When it happened, by its producer's clock. Default: now.
    pub created_at: Option<Timestamp>,
    /// When it was inserted. Default: now.
    pub inserted_at: Option<Timestamp>,
    /// When it became DONE or DEAD.
    pub done_at: Option<Timestamp>,
}

impl Default for RawRow {
    fn default() -> Self {
        Self {
            id: EventId::uuid_v7(),
            event_type: "Raw".into(),
            aggregate_type: GLOBAL.into(),
            aggregate_id: None,
            tenant_id: None,
            topic: None,
            content_type: None,
            schema_version: None,
            payload: Some(Bytes::from_static(b"{}")),
            headers: None,
            status: 0,
            attempts: 0,
            last_error: None,
            available_at: None,
            created_at: None,
            inserted_at: None,
            done_at: None,
        }
    }
}

impl RawRow {
    /// A valid row of this event type.
    pub fn of_type(event_type: impl Into<String>) -> Self {
        Self { event_type: event_type.into(), ..Self::default() }
    }

    /// Sets the event's id. Default: a new UUIDv7.
    #[must_use]
    pub fn with_id(self, id: impl Into<EventId>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Sets the aggregate's type and id. Default: [`GLOBAL`], and no id.
    #[must_use]
    pub fn with_aggregate(self, aggregate_type: impl Into<String>, aggregate_id: impl Into<String>) -> Self {
        Self { aggregate_type: aggregate_type.into(), aggregate_id: Some(aggregate_id.into()), ..self }
    }

    /// Sets the tenant. Default: none.
    #[must_use]
    pub fn with_tenant_id(self, tenant_id: impl Into<String>) -> Self {
        Self { tenant_id: Some(tenant_id.into()), ..self }
    }

    /// Sets the media type of a binary payload. Default: none, so the payload is JSON.
    #[must_use]
    pub fn with_content_type(self, content_type: impl Into<String>) -> Self {
        Self { content_type: Some(content_type.into()), ..self }
    }

    /// Sets the payload. Default: `{}`.
    #[must_use]
    pub fn with_payload(self, payload: impl Into<Bytes>) -> Self {
        Self { payload: Some(payload.into()), ..self }
    }

    /// Removes the payload, which makes the row malformed.
    #[must_use]
    pub fn without_payload(self) -> Self {
        Self { payload: None, ..self }
    }

    /// Sets the headers as JSON text, valid or not. Default: none.
    #[must_use]
    pub fn with_headers(self, headers: impl Into<String>) -> Self {
        Self { headers: Some(headers.into()), ..self }
    }

    /// Sets the status code, known or not: see [`Status::code`](crate::Status::code). Default: 0, NEW.
    #[must_use]
    pub fn with_status_code(self, status: i64) -> Self {
        Self { status, ..self }
    }

    /// Sets the number of failed attempts. Default: 0.
    #[must_use]
    pub fn with_attempts(self, attempts: i64) -> Self {
        Self { attempts, ..self }
    }

    /// Sets why the event failed last. Default: none.
    #[must_use]
    pub fn with_last_error(self, error: impl Into<String>) -> Self {
        Self { last_error: Some(error.into()), ..self }
    }

    /// Sets when the row is due. Default: when it is inserted.
    #[must_use]
    pub fn with_available_at(self, available_at: Timestamp) -> Self {
        Self { available_at: Some(available_at), ..self }
    }

    /// Sets when the event happened, by its producer's clock. Default: when it is inserted.
    #[must_use]
    pub fn with_created_at(self, created_at: Timestamp) -> Self {
        Self { created_at: Some(created_at), ..self }
    }

    /// Sets when the row was inserted. Default: now.
    #[must_use]
    pub fn with_inserted_at(self, inserted_at: Timestamp) -> Self {
        Self { inserted_at: Some(inserted_at), ..self }
    }

    /// Sets when the row became DONE or DEAD. Default: none.
    #[must_use]
    pub fn with_done_at(self, done_at: Timestamp) -> Self {
        Self { done_at: Some(done_at), ..self }
    }
}
