//! What happens to leases between claim and settlement: renew, release, park, and the way back.

use std::collections::HashSet;

use posthaste::store::{Park, Release, Renew, Unpark};
use posthaste::{EventId, StoreError};
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::value::{self, MOST_KEYS, bind_all, clock, delay, leases, now, places};

/// The rows that these leases hold.
macro_rules! held {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$[0]', token BIGINT PATH '$[1]')) AS v
STRAIGHT_JOIN `{table}` AS o ON o.seq = v.seq AND o.lease_token = v.token AND o.locked_by = ? AND o.phase = 0"
    };
}

pub(super) const RENEW: &str =
    concat!("UPDATE ", held!(), " SET o.available_at = ", clock!(), " + INTERVAL ? MICROSECOND");

pub(super) const HELD: &str = concat!("SELECT o.seq FROM ", held!());

pub(super) const RELEASE: &str = concat!(
    "UPDATE ",
    held!(),
    " SET o.available_at = ",
    clock!(),
    ", o.parked = NULL, o.locked_by = NULL, o.locked_at = NULL, o.lease_token = 0"
);

pub(super) const PARK: &str = concat!(
    "UPDATE ",
    held!(),
    " SET o.available_at = ",
    clock!(),
    " + INTERVAL ? MICROSECOND, o.parked = ?, o.locked_by = NULL, o.locked_at = NULL, o.lease_token = 0"
);

/// Found first and changed then: an UPDATE that changes the index by which it finds its rows would read and
/// sort all that is parked.
pub(super) const PARKED: &str = "SELECT seq FROM `{table}` FORCE INDEX (`{table}_parked`)
WHERE parked = ? AND status IN (0, 2) ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED";

pub(super) const UNPARK: &str =
    concat!("UPDATE `{table}` SET available_at = ", clock!(), ", parked = NULL WHERE seq IN ({keys})");

impl MySqlStore {
    pub(super) async fn renew_leases(&self, renew: &Renew<'_>) -> Result<Vec<EventId>, StoreError> {
        if renew.leases.is_empty() {
            return Ok(Vec::new());
        }
        let leases = leases(renew.leases);
        let held = self.connections().engine(async |connection| {
            let query = self.sql().query::<MySql>(RENEW).bind(&leases).bind(renew.owner.as_str());
            let query = query.bind(now(renew.now)).bind(delay(renew.lease));
            let renewed = query.execute(&mut *connection).await?.rows_affected();
            // Whoever asks for n and gets n needs no second answer.
            match renewed == renew.leases.len() as u64 {
                true => Ok(None),
                false => self.still_held(connection, &leases, renew).await.map(Some),
            }
        });
        let held = held.await?;
        let is_held = |seq: &i64| held.as_ref().is_none_or(|held| held.contains(seq));
        let ids = renew.leases.iter().filter(|lease| is_held(&lease.seq));
        Ok(ids.map(|lease| lease.id.clone()).collect())
    }

    async fn still_held(
        &self,
        connection: &mut MySqlConnection,
        leases: &str,
        renew: &Renew<'_>,
    ) -> Result<HashSet<i64>, sqlx::Error> {
        let query = self.sql().query::<MySql>(HELD).bind(leases.to_owned()).bind(renew.owner.as_str());
        let rows = query.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    pub(super) async fn release_leases(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let leases = leases(release.leases);
        let released = self.connections().engine(async |connection| {
            let query = self.sql().query::<MySql>(RELEASE).bind(&leases).bind(release.owner.as_str());
            Ok(query.bind(now(release.now)).execute(connection).await?.rows_affected())
        });
        released.await
    }

    pub(super) async fn park_rows(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let leases = leases(park.leases);
        let parked = self.connections().engine(async |connection| {
            let query = self.sql().query::<MySql>(PARK).bind(&leases).bind(park.owner.as_str());
            let query = query.bind(now(park.now)).bind(delay(park.duration)).bind(park.route);
            Ok(query.execute(connection).await?.rows_affected())
        });
        parked.await
    }

    pub(super) async fn unpark_rows(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let unparked = self.connections().engine_together(async |connection| {
            let query = self.sql().query::<MySql>(PARKED).bind(unpark.route).bind(value::limit(unpark.limit));
            let rows = query.fetch_all(&mut *connection).await?;
            let seqs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
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
