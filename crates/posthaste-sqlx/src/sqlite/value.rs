//! Values as statements take them, and as rows hold them.

use posthaste::store::Lease;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

/// Rows as one JSON list, which is one value to bind.
pub(super) fn seqs(seqs: &[i64]) -> String {
    // Numbers always have a JSON form.
    serde_json::to_string(seqs).unwrap_or_default()
}

/// Leases as a JSON list of `[seq, token]`.
pub(super) fn leases(leases: &[Lease]) -> String {
    let pairs: Vec<(i64, i64)> = leases.iter().map(|lease| (lease.seq, lease.token.as_i64())).collect();
    serde_json::to_string(&pairs).unwrap_or_default()
}

/// A limit. To SQLite a negative number would mean none.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Text that may be none: one row that is not UTF-8 must not hide the others.
pub(super) fn lossy(row: &SqliteRow, index: usize) -> Result<String, sqlx::Error> {
    Ok(String::from_utf8_lossy(row.try_get(index)?).into_owned())
}
