//! A store that never replies, replies late, fails or panics.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::admin::{
    AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats, Tolerance,
};
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Unpark,
};
use posthaste::{Admin, EventDetail, EventId, EventRow, Store, StoreError, Timestamp};
use tokio::time::timeout;

use super::support::ApiFixture;

/// The text of a driver's error. It belongs in the log and in no response.
pub(super) const DRIVER_ERROR: &str = "sEcret-of-the-driver";

#[derive(Clone, Copy, Debug)]
pub(super) enum StoreFailure {
    /// It never replies.
    Silent,
    /// It fails after half a minute, and counts a second call then.
    Late,
    Broken,
    Unable,
    Panics,
}

#[derive(Debug)]
pub(super) struct FailingStore {
    failure: StoreFailure,
    /// The number of calls.
    calls: Arc<AtomicUsize>,
}

/// A router over such a store, and the number of calls to the store.
pub(super) fn in_trouble(failure: StoreFailure) -> (ApiFixture, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let failing_store = Arc::new(FailingStore { failure, calls: calls.clone() });
    (ApiFixture::over(failing_store.clone(), failing_store), calls)
}

impl FailingStore {
    async fn reply<T>(&self) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.failure {
            StoreFailure::Silent => pending().await,
            StoreFailure::Late => {
                let _ = timeout(Duration::from_secs(30), pending::<()>()).await;
                self.calls.fetch_add(1, Ordering::SeqCst);
                Err(StoreError::backend("test", DRIVER_ERROR))
            }
            StoreFailure::Broken => Err(StoreError::backend("test", DRIVER_ERROR)),
            StoreFailure::Unable => Err(StoreError::Unsupported { store: "test", operation: "do this" }),
            StoreFailure::Panics => panic!("{DRIVER_ERROR}"),
        }
    }
}

#[async_trait]
impl Admin for FailingStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        self.reply().await
    }
    async fn backlog(&self, _: BacklogBy, _: usize) -> Result<Backlog, StoreError> {
        self.reply().await
    }
    async fn count(&self, _: &Filter) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn list(&self, _: &Filter, _: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        self.reply().await
    }
    async fn get(&self, _: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.reply().await
    }
    async fn dead_groups(&self, _: usize) -> Result<Vec<DeadGroup>, StoreError> {
        self.reply().await
    }
    async fn replay(&self, _: &EventId, _: &Replay<'_>) -> Result<bool, StoreError> {
        self.reply().await
    }
    async fn replay_all(&self, _: &Filter, _: usize, _: &Replay<'_>) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn discard(&self, _: &Filter, _: usize, _: &str) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn purge(&self, _: &Purge, _: &str) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn pause(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        self.reply().await
    }
    async fn resume(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        self.reply().await
    }
    async fn diagnose(&self, _: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        self.reply().await
    }
    async fn audit(&self, _: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        self.reply().await
    }
}

#[async_trait]
impl Store for FailingStore {
    async fn claim(&self, _: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.reply().await
    }
    async fn settle(&self, _: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        self.reply().await
    }
    async fn renew(&self, _: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.reply().await
    }
    async fn release(&self, _: &Release<'_>) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn park(&self, _: &Park<'_>) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn unpark(&self, _: &Unpark<'_>) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn purge_batch(&self, _: &Purge) -> Result<u64, StoreError> {
        self.reply().await
    }
    async fn oldest_pending(&self, _: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.reply().await
    }
    fn wake(&self) -> Option<Notifier> {
        None
    }
}
