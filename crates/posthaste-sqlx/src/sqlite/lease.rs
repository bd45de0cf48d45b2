//! What happens to leases between claim and settlement: renew, release, park, and the way back.

use std::collections::HashSet;

use posthaste::store::{Lease, Park, Release, Renew, Unpark};
use posthaste::{EventId, StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;

use super::{SqliteStore, value};
use crate::row::RowReader;

/// The rows that these leases hold. `+`, so that nobody looks for the ids in their own index.
macro_rules! held {
    () => {
        r#" FROM (SELECT value ->> 0 AS seq, value ->> 1 AS id, value ->> 2 AS token FROM jsonb_each(?1)) AS v
WHERE o.seq = v.seq AND +o.event_id = coalesce(v.id, o.event_id) AND o.lease_token = v.token AND o.locked_by = ?2 AND o.status IN (0, 2)"#
    };
}

pub(super) const RENEW: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = ?3, lost_leases = lost_leases + ?4"#,
    held!(),
    " RETURNING seq, event_id"
);

pub(super) const RELEASE: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = ?3, parked = NULL,
  locked_by = NULL, locked_at = NULL, lease_token = 0"#,
    held!()
);

pub(super) const PARK: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = ?3, parked = ?4, put_off_since = NULL, put_off_limit = NULL,
  locked_by = NULL, locked_at = NULL, lease_token = 0"#,
    held!()
);

pub(super) const UNPARK: &str = r#"UPDATE "{table}" SET available_at = ?3, parked = NULL, put_off_since = NULL,
  put_off_limit = NULL
WHERE seq IN (SELECT seq FROM "{table}" INDEXED BY "{table}_parked"
  WHERE parked IS NOT NULL AND parked = ?1 AND status IN (0, 2) ORDER BY seq LIMIT ?2)"#;

impl SqliteStore {
    pub(super) async fn renew_leases(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let end = renew.now.unwrap_or_else(Timestamp::now) + renew.lease;
        let mut connection = self.connections().writer().await?;
        let query =
            self.sql().query(RENEW).bind(value::leases(renew.leases)).bind(renew.owner.as_str().to_owned());
        let rows = query.bind(end.as_micros()).bind(renew.start).fetch_all(&mut *connection).await;
        let held: HashSet<(i64, EventId)> =
            rows.map_err(|error| self.failed(error))?.iter().map(named).collect();
        let is_held = |lease: &&Lease| held.contains(&(lease.seq, lease.id.clone()));
        Ok(renew.leases.iter().filter(is_held).cloned().collect())
    }

    pub(super) async fn release_leases(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let now = release.now.unwrap_or_else(Timestamp::now);
        let mut connection = self.connections().writer().await?;
        let query = self
            .sql()
            .query(RELEASE)
            .bind(value::leases(release.leases))
            .bind(release.owner.as_str().to_owned());
        let answer = query.bind(now.as_micros()).execute(&mut *connection).await;
        answer.map(|answer| answer.rows_affected()).map_err(|error| self.failed(error))
    }

    pub(super) async fn park_rows(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let due = park.now.unwrap_or_else(Timestamp::now) + park.duration;
        let mut connection = self.connections().writer().await?;
        let query =
            self.sql().query(PARK).bind(value::leases(park.leases)).bind(park.owner.as_str().to_owned());
        let query = query.bind(due.as_micros()).bind(park.route.to_owned());
        let answer = query.execute(&mut *connection).await;
        answer.map(|answer| answer.rows_affected()).map_err(|error| self.failed(error))
    }

    pub(super) async fn unpark_rows(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let now = unpark.now.unwrap_or_else(Timestamp::now);
        let mut connection = self.connections().writer().await?;
        let query = self.sql().query(UNPARK).bind(unpark.route.to_owned());
        let query = query.bind(value::limit(unpark.limit)).bind(now.as_micros());
        let answer = query.execute(&mut *connection).await.map_err(|error| self.failed(error))?;
        if answer.rows_affected() > 0 {
            self.notify_due();
        }
        Ok(answer.rows_affected())
    }
}

/// What a lease calls its row.
fn named(row: &SqliteRow) -> (i64, EventId) {
    let mut reader = RowReader::new(row);
    (reader.seq(), reader.id())
}
