//! Rows as a foreign program may write them: every column as it stands, right or wrong.

use bytes::Bytes;

use crate::event::{EventId, GLOBAL};
use crate::time::Timestamp;

/// The columns of one row, unchecked, for [`MemoryStore::insert_raw`](super::MemoryStore::insert_raw).
///
/// The default is a good row: a new id, an empty JSON object as payload, due at once.
///
/// ```
/// use posthaste::memory::{MemoryStore, RawRow};
///
/// let store = MemoryStore::new();
/// let broken = RawRow { headers: Some("not JSON".into()), ..RawRow::default() };
/// store.insert_raw(broken);
/// assert_eq!(store.len(), 1);
/// ```
#[derive(Clone, Debug)]
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
    /// The payload; none makes the row malformed.
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
