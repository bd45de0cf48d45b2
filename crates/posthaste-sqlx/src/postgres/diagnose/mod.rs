//! Diagnosis of an outbox on PostgreSQL. Every query reads a bounded number of rows.

mod heap_only;
mod indexes;
mod pooler;
pub(super) mod rows;
mod server;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};

pub(crate) use pooler::is_pooled;

use super::PgStore;

pub(super) async fn findings(store: &PgStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
    let pooler = pooler::finding(store).await;
    let indexes = indexes::findings(store).await;
    let rows = match indexes.is_empty() {
        true => store.row_findings(tolerance).await,
        false => Ok(Vec::new()),
    };
    let mut findings = match rows {
        // Behind a pooler that the store was not configured for, statements fail.
        Err(_) if pooler.is_some() => Vec::new(),
        rows => rows?,
    };
    findings.extend(pooler);
    findings.extend(indexes);
    findings.extend(server::findings(store, tolerance).await);
    Ok(findings)
}
