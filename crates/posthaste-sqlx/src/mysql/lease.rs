//! Leases on MySQL: renew, release, park, unpark.
//!
//! Leased rows are locked first and changed then. A row that an open transaction has locked, because its INSERT is not
//! committed yet for example, is skipped: a plain UPDATE would wait for it, and every outcome behind it would wait too.
//! Renew tries skipped rows again for a moment, because a lease that is not renewed counts as lost.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::store::{Lease, Owner, Park, Release, Renew, Unpark};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, Row as _};

use super::MySqlStore;
use super::adaptive_batch::RowSteps;
use super::connection::MAX_TRIES;
use super::value::{self, MAX_KEYS, MySqlQuery, bind_all, clock, delay, now, placeholder_count};
use crate::store::lease::LeaseDialect;

/// The rows of these leases.
macro_rules! held {
    () => {
        "SELECT o.seq, o.event_id FROM JSON_TABLE(?, '$[*]' COLUMNS (
  seq BIGINT PATH '$[0]', id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[1]', token BIGINT PATH '$[2]')) AS v
STRAIGHT_JOIN `{table}` AS o ON o.seq = v.seq AND o.lease_token = v.token AND o.locked_by = ? AND o.phase = 0
WHERE o.event_id = v.id"
    };
}

pub(super) const HELD: &str = held!();

/// Locks the rows of leases. Skips those that another transaction has locked.
pub(super) const LOCK: &str = concat!(held!(), " FOR UPDATE SKIP LOCKED");

/// Extends leases of locked rows. LEAST keeps the count of lost leases within its column.
pub(super) const RENEW: &str = concat!(
    "UPDATE `{table}` SET lease_until = ",
    clock!(),
    " + INTERVAL ? MICROSECOND, lost_leases = LEAST(lost_leases, 2147483646) + ? WHERE seq IN ({keys})"
);

pub(super) const RELEASE: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    ", parked = NULL, locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0 WHERE seq IN ({keys})"
);

pub(super) const PARK: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    " + INTERVAL ? MICROSECOND, parked = ?, put_off_since = NULL, put_off_limit = NULL,
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0
WHERE seq IN ({keys})"
);

/// Rows are found first and changed then. An UPDATE that changes the index by which it finds its rows would read and
/// sort all parked rows.
pub(super) const PARKED: &str = "SELECT seq FROM `{table}` FORCE INDEX (`{table}_parked`)
WHERE parked = ? AND status IN (0, 2) ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED";

pub(super) const UNPARK: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    ", parked = NULL, put_off_since = NULL, put_off_limit = NULL WHERE seq IN ({keys})"
);

impl LeaseDialect for MySql {
    async fn renew(store: &MySqlStore, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let bind = |query: MySqlQuery| query.bind(now(renew.now)).bind(delay(renew.lease)).bind(renew.start);
        let (mut renewed, mut left, mut tries) = (HashSet::new(), renew.leases.to_vec(), 1);
        while !left.is_empty() {
            renewed.extend(store.change_held(RENEW, renew.owner, &left, bind).await?);
            left.retain(|lease| !renewed.contains(&row_id(lease)));
            // A row that stays locked is not renewed. Its lease ends at the time that was set before.
            if left.is_empty() || tries == MAX_TRIES {
                break;
            }
            let held = store.still_held(renew.owner, &left).await?;
            left.retain(|lease| held.contains(&row_id(lease)));
            if !left.is_empty() {
                store.connections().wait(tries).await;
                tries += 1;
            }
        }
        Ok(renew.leases.iter().filter(|lease| renewed.contains(&row_id(lease))).cloned().collect())
    }

    async fn release(store: &MySqlStore, release: &Release<'_>) -> Result<u64, StoreError> {
        let bind = |query: MySqlQuery| query.bind(now(release.now));
        Ok(store.change_held(RELEASE, release.owner, release.leases, bind).await?.len() as u64)
    }

    async fn park(store: &MySqlStore, park: &Park<'_>) -> Result<u64, StoreError> {
        let bind = |query: MySqlQuery| query.bind(now(park.now)).bind(delay(park.duration)).bind(park.route);
        Ok(store.change_held(PARK, park.owner, park.leases, bind).await?.len() as u64)
    }

    async fn unpark(store: &MySqlStore, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let mut steps = RowSteps::new(unpark.limit);
        while let Some(rows) = steps.next() {
            let unparked = store.unpark_step(unpark, rows).await?;
            steps.found(unparked);
            if unparked > 0 {
                store.notify_due();
            }
        }
        Ok(steps.total())
    }
}

impl MySqlStore {
    /// The leases that still hold a row, locked or not.
    async fn still_held(&self, owner: &Owner, leases: &[Lease]) -> Result<HashSet<RowId>, StoreError> {
        let held = self.connections().engine(async |connection| {
            let query = self.sql().query::<MySql>(HELD).bind(value::leases(leases)).bind(owner.as_str());
            query.fetch_all(connection).await?.iter().map(read_row_id).collect()
        });
        held.await
    }

    /// Changes those rows of these leases that no other transaction has locked. Returns them.
    async fn change_held(
        &self,
        change: &'static str,
        owner: &Owner,
        leases: &[Lease],
        bind: impl Fn(MySqlQuery) -> MySqlQuery,
    ) -> Result<Vec<RowId>, StoreError> {
        let changed = self.connections().engine_in_transaction(async |connection| {
            let query = self.sql().query::<MySql>(LOCK).bind(value::leases(leases)).bind(owner.as_str());
            let rows = query.fetch_all(&mut *connection).await?;
            let rows = rows.iter().map(read_row_id).collect::<Result<Vec<RowId>, _>>()?;
            let seqs: Vec<i64> = rows.iter().map(|(seq, _)| *seq).collect();
            for seqs in seqs.chunks(MAX_KEYS) {
                let query = bind(self.sql().listed(change, placeholder_count(seqs.len())));
                bind_all(query, seqs).execute(&mut *connection).await?;
            }
            Ok(rows)
        });
        changed.await
    }

    async fn unpark_step(&self, unpark: &Unpark<'_>, rows: usize) -> Result<u64, StoreError> {
        let unparked = self.connections().engine_in_transaction(async |connection| {
            let query = self.sql().query::<MySql>(PARKED).bind(unpark.route).bind(value::limit(rows));
            let rows = query.fetch_all(&mut *connection).await?;
            let seqs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
            for seqs in seqs.chunks(MAX_KEYS) {
                let query = self.sql().listed(UNPARK, placeholder_count(seqs.len())).bind(now(unpark.now));
                bind_all(query, seqs).execute(&mut *connection).await?;
            }
            Ok(seqs.len() as u64)
        });
        unparked.await
    }
}

/// A row as a lease names it: `seq` and id.
type RowId = (i64, String);

fn row_id(lease: &Lease) -> RowId {
    (lease.seq, lease.id.to_string())
}

fn read_row_id(row: &MySqlRow) -> sqlx::Result<RowId> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}
