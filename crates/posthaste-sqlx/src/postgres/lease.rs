//! Leases on PostgreSQL: renew, release, park, unpark.

use posthaste::store::{Lease, Park, Release, Renew, Unpark};
use posthaste::{EventId, StoreError};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, Row as _};

use super::PgStore;
use super::value::{interval, leases, now};
use crate::store::lease::LeaseDialect;

/// The rows of these leases.
macro_rules! held {
    () => {
        r#" FROM unnest($1::int8[], $2::text[], $3::int8[]) AS v (seq, id, token)
WHERE o.seq = v.seq AND o.event_id = v.id AND o.lease_token = v.token AND o.locked_by = $4 AND o.status IN (0, 2)"#
    };
}

/// Extends leases, and returns them with their tokens. `least` keeps the count of lost leases within its column.
pub(super) const RENEW: &str = concat!(
    r#"UPDATE "{table}" AS o SET lease_until = coalesce($5, statement_timestamp()) + $6,
  lost_leases = least(o.lost_leases, 2147483646) + $7"#,
    held!(),
    " RETURNING o.event_id, o.seq, o.lease_token"
);

pub(super) const RELEASE: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = coalesce($5, statement_timestamp()), parked = NULL,
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0"#,
    held!()
);

pub(super) const PARK: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = coalesce($5, statement_timestamp()) + $6, parked = $7,
  put_off_since = NULL, put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0"#,
    held!()
);

/// `NOT IN (1, 3)` keeps PostgreSQL from using the index of pending rows, in which it would search for the parked ones.
pub(super) const UNPARK: &str = r#"UPDATE "{table}" SET available_at = coalesce($2, statement_timestamp()), parked = NULL,
  put_off_since = NULL, put_off_limit = NULL
WHERE seq = ANY (ARRAY(SELECT seq FROM "{table}"
  WHERE parked = $1 AND status NOT IN (1, 3) ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED))"#;

impl LeaseDialect for Postgres {
    async fn renew(store: &PgStore, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let (seqs, ids, tokens) = leases(renew.leases);
        let held = store.connections().engine(async |connection| {
            let query = store.sql().fresh::<Postgres>(RENEW).bind(seqs).bind(ids).bind(tokens);
            let query = query.bind(renew.owner.as_str()).bind(now(renew.now)).bind(interval(renew.lease));
            query.bind(i32::from(renew.start)).fetch_all(connection).await?.iter().map(held).collect()
        });
        held.await
    }

    async fn release(store: &PgStore, release: &Release<'_>) -> Result<u64, StoreError> {
        let (seqs, ids, tokens) = leases(release.leases);
        let released = store.connections().engine(async |connection| {
            let query = store.sql().fresh::<Postgres>(RELEASE).bind(seqs).bind(ids).bind(tokens);
            let query = query.bind(release.owner.as_str()).bind(now(release.now));
            Ok(query.execute(connection).await?.rows_affected())
        });
        released.await
    }

    async fn park(store: &PgStore, park: &Park<'_>) -> Result<u64, StoreError> {
        let (seqs, ids, tokens) = leases(park.leases);
        let parked = store.connections().engine(async |connection| {
            let query = store.sql().fresh::<Postgres>(PARK).bind(seqs).bind(ids).bind(tokens);
            let query = query.bind(park.owner.as_str()).bind(now(park.now)).bind(interval(park.duration));
            Ok(query.bind(park.route).execute(connection).await?.rows_affected())
        });
        parked.await
    }

    async fn unpark(store: &PgStore, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let unparked = store.connections().engine(async |connection| {
            let query =
                store.sql().limited::<Postgres>(&[UNPARK], unpark.limit).persistent(false).bind(unpark.route);
            Ok(query.bind(now(unpark.now)).execute(connection).await?.rows_affected())
        });
        let unparked = unparked.await?;
        if unparked > 0 {
            store.notify_due();
        }
        Ok(unparked)
    }
}

fn held(row: &PgRow) -> sqlx::Result<Lease> {
    let (id, seq, token): (&str, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(Lease::new(EventId::from(id), seq, token.into()))
}
