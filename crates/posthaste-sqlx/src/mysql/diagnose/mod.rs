//! What looks wrong with the rows and with the server. Nothing here reads more than a bounded number of rows.

mod indexes;
pub(super) mod rows;
mod server;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};

use super::MySqlStore;

pub(super) async fn findings(store: &MySqlStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    // Statements that name an index which is gone, or not to be used, are refused.
    let indexes = indexes::findings(store).await;
    let mut findings = match indexes.is_empty() {
        true => store.row_findings(tolerance).await?,
        false => indexes,
    };
    findings.extend(server::findings(store, tolerance).await);
    Ok(findings)
}
