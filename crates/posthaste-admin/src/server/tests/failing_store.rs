//! A store that is in trouble: it never answers, it fails, or its code is wrong.

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

/// What a driver may say: it is for the log, and in no answer.
pub(super) const DRIVER_ERROR: &str = "sEcret-of-the-driver";

#[derive(Clone, Copy, Debug)]
pub(super) enum StoreFailure {
    Silent,
    /// It answers after half a minute, and counts that too.
    Late,
    Broken,
    Unable,
    Panics,
}

#[derive(Debug)]
pub(super) struct FailingStore {
    failure: StoreFailure,
    /// How often it was asked.
    asked: Arc<AtomicUsize>,
}

/// A listener over such a store, and how often that was asked.
pub(super) fn in_trouble(failure: StoreFailure) -> (ApiFixture, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let failing_store = Arc::new(FailingStore { failure, asked: asked.clone() });
    (ApiFixture::over(failing_store.clone(), failing_store), asked)
}

impl FailingStore {
    async fn answer<T>(&self) -> Result<T, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.failure {
            StoreFailure::Silent => pending().await,
            StoreFailure::Late => {
                let _ = timeout(Duration::from_secs(30), pending::<()>()).await;
                self.asked.fetch_add(1, Ordering::SeqCst);
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
        self.answer().await
    }
    async fn backlog(&self, _: BacklogBy, _: usize) -> Result<Backlog, StoreError> {
        self.answer().await
    }
    async fn count(&self, _: &Filter) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn list(&self, _: &Filter, _: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        self.answer().await
    }
    async fn get(&self, _: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.answer().await
    }
    async fn dead_groups(&self, _: usize) -> Result<Vec<DeadGroup>, StoreError> {
        self.answer().await
    }
    async fn replay(&self, _: &EventId, _: &Replay<'_>) -> Result<bool, StoreError> {
        self.answer().await
    }
    async fn replay_all(&self, _: &Filter, _: usize, _: &Replay<'_>) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn discard(&self, _: &Filter, _: usize, _: &str) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn purge(&self, _: &Purge, _: &str) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn pause(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        self.answer().await
    }
    async fn resume(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        self.answer().await
    }
    async fn diagnose(&self, _: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        self.answer().await
    }
    async fn audit(&self, _: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        self.answer().await
    }
}

#[async_trait]
impl Store for FailingStore {
    async fn claim(&self, _: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.answer().await
    }
    async fn settle(&self, _: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        self.answer().await
    }
    async fn renew(&self, _: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.answer().await
    }
    async fn release(&self, _: &Release<'_>) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn park(&self, _: &Park<'_>) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn unpark(&self, _: &Unpark<'_>) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn purge_batch(&self, _: &Purge) -> Result<u64, StoreError> {
        self.answer().await
    }
    async fn oldest_pending(&self, _: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.answer().await
    }
    fn wake(&self) -> Option<Notifier> {
        None
    }
}
