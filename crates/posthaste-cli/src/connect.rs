//! Opens the store of a command, works, and closes it again.

use posthaste::Admin;
use posthaste_stores::{Purpose, StoreSpec};

/// Opens a store for an operator, works, and closes it: a process that ends without that leaves SQLite's side files
/// behind.
pub(crate) async fn with_admin<T>(
    spec: &StoreSpec,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = posthaste_stores::open(spec, Purpose::Look).await?;
    let result = work(&*opened.admin()).await;
    opened.close().await;
    result
}
