//! The engine's door.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Store, Unpark,
};
use posthaste::{StoreError, Timestamp};
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::value::{self, clock};
use crate::sql::Sql;

/// A row has been due once if it is due, held or parked, or if anything ever happened to it. Its columns are named,
/// because the server makes a table of the rows inside: with all of them, payloads included.
pub(super) const OLDEST_PENDING: &str = concat!(
    "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(inserted_at), ",
    clock!(),
    ") FROM (SELECT inserted_at, available_at, locked_by, parked, last_error IS NOT NULL AS has_error, attempts,
    deferrals, lost_leases
  FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0 ORDER BY seq LIMIT 1000) AS oldest
WHERE available_at <= ",
    clock!(),
    " OR locked_by IS NOT NULL OR parked IS NOT NULL OR has_error OR attempts <> 0
   OR deferrals <> 0 OR lost_leases <> 0"
);

#[async_trait]
impl Store for MySqlStore {
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
            async |connection: &mut MySqlConnection| read_oldest_pending(self.sql(), connection, now).await;
        self.connections().engine(work).await
    }

    fn wake(&self) -> Option<Notifier> {
        Some(self.watch())
    }
}

pub(super) async fn read_oldest_pending(
    sql: &Sql,
    connection: &mut MySqlConnection,
    now: Option<Timestamp>,
) -> Result<Option<Duration>, sqlx::Error> {
    let query = sql.query::<MySql>(OLDEST_PENDING).bind(value::now(now)).bind(value::now(now));
    let age: Option<i64> = query.fetch_one(connection).await?.try_get(0)?;
    Ok(age.map(|age| Duration::from_micros(age.try_into().unwrap_or(0))))
}
