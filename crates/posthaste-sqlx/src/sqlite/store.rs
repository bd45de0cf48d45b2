//! The engine's door.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Store, Unpark,
};
use posthaste::{StoreError, Timestamp};

use super::SqliteStore;

/// A row has been due once if it is due, held or parked, or if anything ever happened to it. A time
/// that a foreign program left unreadable counts for nobody's age.
pub(super) const OLDEST_PENDING: &str = r#"SELECT
  min(CASE WHEN typeof(inserted_at) IN ('integer', 'real') THEN CAST(inserted_at AS INTEGER) END) FROM (
  SELECT * FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 1000)
WHERE available_at <= ?1 OR locked_by IS NOT NULL OR parked IS NOT NULL OR last_error IS NOT NULL
   OR attempts <> 0 OR deferrals <> 0 OR lost_leases <> 0"#;

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.claim_rows(claim).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        self.settle_rows(settle).await
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.renew_leases(renew).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        self.release_leases(release).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        self.park_rows(park).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        self.unpark_rows(unpark).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.purge_rows(purge).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.oldest_pending_at(now.unwrap_or_else(Timestamp::now)).await
    }

    fn wake(&self) -> Option<Notifier> {
        self.watch()
    }
}

impl SqliteStore {
    pub(super) async fn oldest_pending_at(&self, now: Timestamp) -> Result<Option<Duration>, StoreError> {
        let oldest = self.read(async |connection| {
            let query = self.sql().scalar::<_, Option<i64>>(OLDEST_PENDING).bind(now.as_micros());
            query.fetch_one(connection).await
        });
        Ok(oldest.await?.map(|inserted_at| now.since(Timestamp::from_micros(inserted_at))))
    }
}
