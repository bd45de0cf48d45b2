//! Leases on SQLite: renew, release, park, unpark.

use std::collections::HashSet;

use posthaste::store::{Lease, Owner, Park, Release, Renew, Unpark};
use posthaste::{EventId, StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Sqlite, SqliteConnection};

use super::{SqliteStore, value};
use crate::queries::SqlQuery;
use crate::row::RowReader;
use crate::store::lease::LeaseDialect;

/// The rows of these leases. The unary `+` keeps SQLite from looking up the ids in their own index.
macro_rules! held {
    () => {
        r#" FROM (SELECT value ->> 0 AS seq, value ->> 1 AS id, value ->> 2 AS token FROM jsonb_each(?1)) AS v
WHERE o.seq = v.seq AND +o.event_id = coalesce(v.id, o.event_id) AND o.lease_token = v.token AND o.locked_by = ?2 AND o.status IN (0, 2)"#
    };
}

pub(super) const RENEW: &str = concat!(
    r#"UPDATE "{table}" AS o SET lease_until = ?3, lost_leases = lost_leases + ?4"#,
    held!(),
    " RETURNING seq, event_id"
);

pub(super) const RELEASE: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = ?3, parked = NULL,
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0"#,
    held!()
);

pub(super) const PARK: &str = concat!(
    r#"UPDATE "{table}" AS o SET available_at = ?3, parked = ?4, put_off_since = NULL, put_off_limit = NULL,
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0"#,
    held!()
);

pub(super) const UNPARK: &str = r#"UPDATE "{table}" SET available_at = ?3, parked = NULL, put_off_since = NULL,
  put_off_limit = NULL
WHERE seq IN (SELECT seq FROM "{table}" INDEXED BY "{table}_parked"
  WHERE parked IS NOT NULL AND parked = ?1 AND status IN (0, 2) ORDER BY seq LIMIT ?2)"#;

impl LeaseDialect for Sqlite {
    async fn renew(store: &SqliteStore, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let end = renew.now.unwrap_or_else(Timestamp::now) + renew.lease;
        let query = held_by(store, RENEW, renew.leases, renew.owner).bind(end.as_micros()).bind(renew.start);
        let renew_rows = async |connection: &mut SqliteConnection| query.fetch_all(connection).await;
        let rows = store.connections().engine(renew_rows).await?;
        let held: HashSet<(i64, EventId)> = rows.iter().map(named).collect();
        let is_held = |lease: &&Lease| held.contains(&(lease.seq, lease.id.clone()));
        Ok(renew.leases.iter().filter(is_held).cloned().collect())
    }

    async fn release(store: &SqliteStore, release: &Release<'_>) -> Result<u64, StoreError> {
        let now = release.now.unwrap_or_else(Timestamp::now);
        execute(store, held_by(store, RELEASE, release.leases, release.owner).bind(now.as_micros())).await
    }

    async fn park(store: &SqliteStore, park: &Park<'_>) -> Result<u64, StoreError> {
        let due = park.now.unwrap_or_else(Timestamp::now) + park.duration;
        let query = held_by(store, PARK, park.leases, park.owner).bind(due.as_micros());
        execute(store, query.bind(park.route.to_owned())).await
    }

    async fn unpark(store: &SqliteStore, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let now = unpark.now.unwrap_or_else(Timestamp::now);
        let query = store.sql().query(UNPARK).bind(unpark.route.to_owned());
        let query = query.bind(value::limit(unpark.limit)).bind(now.as_micros());
        let unparked = execute(store, query).await?;
        if unparked > 0 {
            store.notify_due();
        }
        Ok(unparked)
    }
}

/// A statement about the rows of these leases.
fn held_by(
    store: &SqliteStore,
    statement: &'static str,
    leases: &[Lease],
    owner: &Owner,
) -> SqlQuery<Sqlite> {
    store.sql().query(statement).bind(value::leases(leases)).bind(owner.as_str().to_owned())
}

async fn execute(store: &SqliteStore, query: SqlQuery<Sqlite>) -> Result<u64, StoreError> {
    let execute = async |connection: &mut SqliteConnection| query.execute(connection).await;
    Ok(store.connections().engine(execute).await?.rows_affected())
}

/// A row as a lease names it: `seq` and id.
fn named(row: &SqliteRow) -> (i64, EventId) {
    let mut reader = RowReader::new(row);
    (reader.seq(), reader.id())
}
