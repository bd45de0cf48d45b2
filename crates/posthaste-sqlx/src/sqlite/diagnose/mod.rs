//! What looks wrong with the rows and with the file. Nothing here reads more than a bounded number of rows.

mod file;
mod indexes;
pub(super) mod rows;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};

use super::SqliteStore;

pub(super) async fn findings(store: &SqliteStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    // Statements that name an index which is gone, or of no use to them, are refused.
    let mut findings = store.read(async |connection| indexes::read(store.sql(), connection).await).await?;
    if findings.is_empty() {
        findings = store.row_findings(tolerance).await?;
    }
    findings.extend(file::findings(store, tolerance).await);
    Ok(findings)
}
