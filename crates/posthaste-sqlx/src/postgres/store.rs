//! The engine's door.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Store, Unpark,
};
use posthaste::{StoreError, Timestamp};
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::value::{self, Time};
use crate::sql::Sql;

/// A row has been due once if it is due, held or parked, or if anything ever happened to it.
pub(super) const OLDEST_PENDING: &str = r#"SELECT coalesce($1, statement_timestamp()), min(inserted_at) FROM (
  SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 1000) AS oldest
WHERE available_at <= coalesce($1, statement_timestamp()) OR locked_by IS NOT NULL OR parked IS NOT NULL
   OR last_error IS NOT NULL OR attempts <> 0 OR deferrals <> 0 OR lost_leases <> 0"#;

#[async_trait]
impl Store for PgStore {
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
        let work =
            async |connection: &mut PgConnection| read_oldest_pending(self.sql(), connection, now).await;
        self.connections().engine(work).await
    }

    fn wake(&self) -> Option<Notifier> {
        Some(self.listen())
    }
}

pub(super) async fn read_oldest_pending(
    sql: &Sql,
    connection: &mut PgConnection,
    now: Option<Timestamp>,
) -> Result<Option<Duration>, sqlx::Error> {
    let query = sql.fresh::<Postgres>(OLDEST_PENDING).bind(value::now(now));
    let row = query.fetch_one(connection).await?;
    let (now, oldest): (Time, Option<Time>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(oldest.map(|oldest| now.0.since(oldest.0)))
}
