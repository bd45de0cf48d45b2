//! What happens to leases between claim and settlement: renew, release, park, and the way back.
//!
//! The rows that leases hold are locked first, and changed then. A row that an open transaction has locked, because
//! it has not committed its INSERT for example, is stepped over: an UPDATE alone would wait for it, and so would
//! every outcome behind it.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::store::{Lease, Park, Release, Renew, Unpark};
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::value::{self, MOST_KEYS, MySqlQuery, bind_all, clock, delay, leases, now, places};

/// The rows that these leases hold.
macro_rules! held {
    () => {
        "SELECT o.seq, o.event_id FROM JSON_TABLE(?, '$[*]' COLUMNS (
  seq BIGINT PATH '$[0]', id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[1]', token BIGINT PATH '$[2]')) AS v
STRAIGHT_JOIN `{table}` AS o ON o.seq = v.seq AND o.lease_token = v.token AND o.locked_by = ? AND o.phase = 0
WHERE o.event_id = v.id"
    };
}

pub(super) const HELD: &str = held!();

pub(super) const LOCK: &str = concat!(held!(), " FOR UPDATE SKIP LOCKED");

pub(super) const RENEW: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    " + INTERVAL ? MICROSECOND, lost_leases = LEAST(lost_leases, 2147483646) + ? WHERE seq IN ({keys})"
);

pub(super) const RELEASE: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    ", parked = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0 WHERE seq IN ({keys})"
);

pub(super) const PARK: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    " + INTERVAL ? MICROSECOND, parked = ?, put_off_since = NULL, put_off_limit = NULL,
  locked_by = NULL, locked_at = NULL, lease_token = 0
WHERE seq IN ({keys})"
);

/// Found first and changed then: an UPDATE that changes the index by which it finds its rows would read and
/// sort all that is parked.
pub(super) const PARKED: &str = "SELECT seq FROM `{table}` FORCE INDEX (`{table}_parked`)
WHERE parked = ? AND status IN (0, 2) ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED";

pub(super) const UNPARK: &str = concat!(
    "UPDATE `{table}` SET available_at = ",
    clock!(),
    ", parked = NULL, put_off_since = NULL, put_off_limit = NULL WHERE seq IN ({keys})"
);

impl MySqlStore {
    pub(super) async fn renew_leases(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        if renew.leases.is_empty() {
            return Ok(Vec::new());
        }
        let (owner, leases) = (renew.owner.as_str(), leases(renew.leases));
        let bind = |query: MySqlQuery| query.bind(now(renew.now)).bind(delay(renew.lease)).bind(renew.start);
        let renewed = self.change_held(RENEW, owner, &leases, bind).await?;
        // Whoever asks for n and gets n needs no second answer.
        if renewed == renew.leases.len() as u64 {
            return Ok(renew.leases.to_vec());
        }
        // A start that was stepped over was not counted, so it must not happen.
        if renew.start {
            return Ok(Vec::new());
        }
        // A row that is locked is renewed the next time, long before its lease ends, and held until then.
        let held = self.connections().engine(async |connection| {
            let query = self.sql().query::<MySql>(HELD).bind(leases.clone()).bind(owner);
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        });
        let held: HashSet<(i64, String)> = held.await?;
        let is_held = |lease: &&Lease| held.contains(&(lease.seq, lease.id.to_string()));
        Ok(renew.leases.iter().filter(is_held).cloned().collect())
    }

    pub(super) async fn release_leases(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let leases = leases(release.leases);
        let bind = |query: MySqlQuery| query.bind(now(release.now));
        self.change_held(RELEASE, release.owner.as_str(), &leases, bind).await
    }

    pub(super) async fn park_rows(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let leases = leases(park.leases);
        let bind = |query: MySqlQuery| query.bind(now(park.now)).bind(delay(park.duration)).bind(park.route);
        self.change_held(PARK, park.owner.as_str(), &leases, bind).await
    }

    /// Changes the rows that these leases hold, as far as nobody else has locked them; returns how many.
    async fn change_held(
        &self,
        change: &'static str,
        owner: &str,
        leases: &str,
        bind: impl Fn(MySqlQuery) -> MySqlQuery,
    ) -> Result<u64, StoreError> {
        let changed = self.connections().engine_together(async |connection| {
            let query = self.sql().query::<MySql>(LOCK).bind(leases.to_owned()).bind(owner.to_owned());
            let seqs = seqs(query, connection).await?;
            for seqs in seqs.chunks(MOST_KEYS) {
                let query = bind(self.sql().listed(change, places(seqs.len())));
                bind_all(query, seqs).execute(&mut *connection).await?;
            }
            Ok(seqs.len() as u64)
        });
        changed.await
    }

    pub(super) async fn unpark_rows(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let unparked = self.connections().engine_together(async |connection| {
            let query = self.sql().query::<MySql>(PARKED).bind(unpark.route).bind(value::limit(unpark.limit));
            let seqs = seqs(query, connection).await?;
            for seqs in seqs.chunks(MOST_KEYS) {
                let query = self.sql().listed(UNPARK, places(seqs.len())).bind(now(unpark.now));
                bind_all(query, seqs).execute(&mut *connection).await?;
            }
            Ok(seqs.len() as u64)
        });
        let unparked = unparked.await?;
        if unparked > 0 {
            self.ring();
        }
        Ok(unparked)
    }
}

async fn seqs(query: MySqlQuery, connection: &mut MySqlConnection) -> Result<Vec<i64>, sqlx::Error> {
    query.fetch_all(connection).await?.iter().map(|row| row.try_get(0)).collect()
}
