//! Values as statements take them, and as rows hold them.

use posthaste::EventId;
use posthaste::store::Lease;

use crate::row::UNREADABLE_ID;
pub(super) use crate::sql::limit;

/// Rows as one JSON list, which is one value to bind.
pub(super) fn seqs(seqs: &[i64]) -> String {
    // Numbers always have a JSON form.
    serde_json::to_string(seqs).unwrap_or_default()
}

/// Leases as a JSON list of `[seq, id, token]`.
pub(super) fn leases(leases: &[Lease]) -> String {
    let named = |lease: &Lease| (lease.seq, name(&lease.id).map(str::to_owned), lease.token.as_i64());
    serde_json::to_string(&leases.iter().map(named).collect::<Vec<_>>()).unwrap_or_default()
}

/// Ids as one JSON list.
pub(super) fn ids(ids: &[&str]) -> String {
    serde_json::to_string(ids).unwrap_or_default()
}

/// The id by which a row is found beside its `seq`. One that is no text names nothing: such a row is found by
/// its `seq` and token alone.
pub(super) fn name(id: &EventId) -> Option<&str> {
    Some(id.as_str()).filter(|id| *id != UNREADABLE_ID)
}
