//! Values in statements and rows of SQLite.

use posthaste::EventId;
use posthaste::store::Lease;

use crate::row::UNREADABLE_ID;
pub(super) use crate::sql::limit;

/// Numbers as one JSON list, so that a statement has one bound value for any number of rows.
pub(super) fn seqs(seqs: &[i64]) -> String {
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

/// The id by which a row is checked beside its `seq`. `None` for an id that is not text: such a row is found by its
/// `seq` and token alone.
pub(super) fn name(id: &EventId) -> Option<&str> {
    Some(id.as_str()).filter(|id| *id != UNREADABLE_ID)
}
