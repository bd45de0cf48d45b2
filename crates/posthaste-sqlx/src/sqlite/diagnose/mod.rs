//! What looks wrong with the rows and with the file. Nothing here reads more than a bounded number of rows.

mod file;
mod indexes;
pub(super) mod rows;

use posthaste::StoreError;
use posthaste::admin::{Admin as _, Finding, Tolerance};

use super::SqliteStore;

pub(super) async fn findings(store: &SqliteStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    // Statements that name an index which is gone, or of no use to them, are refused.
    let mut findings = store.read(async |connection| indexes::read(store.sql(), connection).await).await?;
    if findings.is_empty() {
        let stats = store.stats().await?;
        let observed = store.read(async |connection| rows::read(store.sql(), connection).await).await?;
        findings = observed.findings(&stats, tolerance);
    }
    findings.extend(file::findings(store, tolerance).await);
    Ok(findings)
}
