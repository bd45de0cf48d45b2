//! Diagnosis of an outbox on SQLite. Every query reads a bounded number of rows.

mod file;
mod indexes;
pub(super) mod rows;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};

use super::SqliteStore;

pub(super) async fn findings(store: &SqliteStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    // SQLite refuses statements that name an index which is missing or of no use for them.
    let mut findings = store.read(async |connection| indexes::read(store.sql(), connection).await).await?;
    if findings.is_empty() {
        findings = store.row_findings(tolerance).await?;
    }
    findings.extend(file::findings(store, tolerance).await);
    Ok(findings)
}
