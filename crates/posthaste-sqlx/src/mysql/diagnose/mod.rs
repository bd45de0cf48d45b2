//! Diagnosis of an outbox on MySQL. Every query reads a bounded number of rows.

mod indexes;
pub(super) mod rows;
mod server;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};

use super::MySqlStore;

pub(super) async fn findings(store: &MySqlStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    // The server refuses statements that name a missing or disabled index.
    let indexes = indexes::findings(store).await;
    let mut findings = match indexes.is_empty() {
        true => store.row_findings(tolerance).await?,
        false => indexes,
    };
    findings.extend(server::findings(store, tolerance).await);
    Ok(findings)
}
