//! Opens the store of a command and closes it again.

use posthaste::Admin;
use posthaste_stores::{Purpose, StoreSpec};

/// Opens a store, calls `work` and closes the store. SQLite's side files are only removed if the store is closed before
/// the process ends.
pub(crate) async fn with_admin<T>(
    spec: &StoreSpec,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = posthaste_stores::open(spec, Purpose::Look).await?;
    let result = work(&*opened.admin()).await;
    opened.close().await;
    result
}
