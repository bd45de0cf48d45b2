//! What happens to leases between claim and settlement: renew, release, park, and the way back.

use std::collections::HashSet;

use posthaste::store::{Park, Release, Renew, Unpark};
use posthaste::{EventId, StoreError};
use sqlx::{Postgres, Row as _};

use super::PgStore;
use super::value::{interval, leases, now};

/// The rows that these leases hold.
macro_rules! held {
    () => {
        r#" FROM unnest($1::int8[], $2::int8[]) AS v (seq, token)
WHERE o.seq = v.seq AND o.lease_token = v.token AND o.locked_by = $3 AND o.status IN (0, 2)"#
    };
}

pub(super) const RENEW: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = coalesce($4, statement_timestamp()) + $5"#,
    held!(),
    " RETURNING o.seq"
);

pub(super) const RELEASE: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = coalesce($4, statement_timestamp()), parked = NULL,
  locked_by = NULL, locked_at = NULL, lease_token = 0"#,
    held!()
);

pub(super) const PARK: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = coalesce($4, statement_timestamp()) + $5, parked = $6,
  locked_by = NULL, locked_at = NULL, lease_token = 0"#,
    held!()
);

/// `NOT IN (1, 3)`, so that PostgreSQL does not look through all that is pending for the parked ones.
pub(super) const UNPARK: &str = r#"UPDATE "{table}" SET available_at = coalesce($2, statement_timestamp()), parked = NULL
WHERE seq = ANY (ARRAY(SELECT seq FROM "{table}"
  WHERE parked = $1 AND status NOT IN (1, 3) ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED))"#;

impl PgStore {
    pub(super) async fn renew_leases(&self, renew: &Renew<'_>) -> Result<Vec<EventId>, StoreError> {
        let (seqs, tokens) = leases(renew.leases);
        let held = self.connections().engine(async |connection| {
            let query = self.sql().fresh::<Postgres>(RENEW).bind(seqs).bind(tokens);
            let query = query.bind(renew.owner.as_str()).bind(now(renew.now)).bind(interval(renew.lease));
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<i64>, _>>()
        });
        let held = held.await?;
        let ids = renew.leases.iter().filter(|lease| held.contains(&lease.seq));
        Ok(ids.map(|lease| lease.id.clone()).collect())
    }

    pub(super) async fn release_leases(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let (seqs, tokens) = leases(release.leases);
        let released = self.connections().engine(async |connection| {
            let query = self.sql().fresh::<Postgres>(RELEASE).bind(seqs).bind(tokens);
            let query = query.bind(release.owner.as_str()).bind(now(release.now));
            Ok(query.execute(connection).await?.rows_affected())
        });
        released.await
    }

    pub(super) async fn park_rows(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let (seqs, tokens) = leases(park.leases);
        let parked = self.connections().engine(async |connection| {
            let query = self.sql().fresh::<Postgres>(PARK).bind(seqs).bind(tokens);
            let query = query.bind(park.owner.as_str()).bind(now(park.now)).bind(interval(park.duration));
            Ok(query.bind(park.route).execute(connection).await?.rows_affected())
        });
        parked.await
    }

    pub(super) async fn unpark_rows(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let unparked = self.connections().engine(async |connection| {
            let query =
                self.sql().limited::<Postgres>(&[UNPARK], unpark.limit).persistent(false).bind(unpark.route);
            Ok(query.bind(now(unpark.now)).execute(connection).await?.rows_affected())
        });
        let unparked = unparked.await?;
        if unparked > 0 {
            self.ring();
        }
        Ok(unparked)
    }
}
