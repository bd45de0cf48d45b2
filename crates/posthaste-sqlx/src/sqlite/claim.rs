//! Claims on SQLite: finds and leases due rows, in order, under the write lock.
//!
//! The size of a row is in its record header, so a claim decides which rows fit before it reads a payload.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use futures_util::TryStreamExt as _;
use posthaste::store::{Claim, ClaimOrder, Claimed, SUSPECT_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::row::event_columns;
use super::{SqliteStore, value};
use crate::claim_byte_limit::rows_within_limit;
use crate::clock_and_pauses::ServerState;
use crate::row::{ReadValues as _, RowReader};
use crate::store::claim::ClaimDialect;

const PAUSED: &str = r#"SELECT json_group_array(route) FROM "{table}_control""#;

/// The names for which rows are parked. Each name takes one step in the index, however many rows have it.
pub(super) const PARKED_NAMES: &str = r#"WITH RECURSIVE names (name) AS (
  SELECT min(parked) FROM "{table}" INDEXED BY "{table}_parked" WHERE parked IS NOT NULL
  UNION ALL SELECT (SELECT min(parked) FROM "{table}" INDEXED BY "{table}_parked"
    WHERE parked IS NOT NULL AND parked > name) FROM names WHERE name IS NOT NULL LIMIT ?1)
SELECT json_group_array(name) FROM names WHERE typeof(name) = 'text'"#;

/// Tells whether a claim would find anything: one step in the index, without the write lock. An empty poll costs no
/// more than that.
pub(super) const ANYTHING_DUE: &str = r#"SELECT EXISTS (
  SELECT 1 FROM "{table}" INDEXED BY "{table}_due" WHERE status IN (0, 2) AND available_at <= ?1)"#;

macro_rules! size {
    () => {
        "coalesce(octet_length(payload), 0) + coalesce(octet_length(headers), 0)"
    };
}

/// Finds due rows in the order of the index. INDEXED BY makes SQLite refuse the statement if the index is missing,
/// instead of reading and sorting the table.
pub(super) const BY_DUE: &str = concat!(
    "SELECT seq, ",
    size!(),
    r#" FROM "{table}" INDEXED BY "{table}_due"
WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
ORDER BY available_at, seq LIMIT ?3"#
);

/// Steps over rows that wait for their time. The first leased row ends the search, and it is looked for only before the
/// last row that fits.
pub(super) const BY_SEQ: &str = concat!(
    "SELECT seq, ",
    size!(),
    r#" FROM "{table}" INDEXED BY "{table}_pending"
WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
  AND seq < coalesce((SELECT seq FROM "{table}" INDEXED BY "{table}_pending"
    WHERE status IN (0, 2) AND locked_by IS NOT NULL AND available_at > ?1
      AND seq < (SELECT max(seq) FROM (SELECT seq FROM "{table}" INDEXED BY "{table}_pending"
        WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
        ORDER BY seq LIMIT ?3))
    ORDER BY seq LIMIT 1), 9223372036854775807)
ORDER BY seq LIMIT ?3"#
);

/// Leases rows. A lease that another owner left without an outcome counts as lost, up to the number at which the engine
/// suspects the event.
pub(super) const LEASE: &str = r#"UPDATE "{table}" SET
  locked_by = ?1, locked_at = ?2, lease_token = ?3, available_at = ?4, parked = NULL,
  lost_leases = lost_leases + (locked_by IS NOT NULL AND locked_by <> ?1 AND lost_leases < ?6)
WHERE seq IN (SELECT value FROM jsonb_each(?5))"#;

pub(super) const ROWS: &str = concat!(
    "SELECT ",
    event_columns!(),
    r#" FROM "{table}" WHERE seq IN (SELECT value FROM jsonb_each(?1))"#
);

/// The driver's thread reads ahead, so each query is given rows of at most this many bytes.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// A due row: its `seq` and its size in bytes.
type DueRow = (i64, i64);

impl ClaimDialect for Sqlite {
    async fn read_server_state(store: &SqliteStore) -> Result<ServerState, StoreError> {
        let row = store.sql().query(PAUSED).fetch_one(&store.connections().write).await;
        let paused = row.and_then(|row| names(&row)).map_err(|error| store.failed(error))?;
        Ok(ServerState { read_at: Instant::now(), now: Timestamp::now(), paused })
    }

    async fn read_parked_names(store: SqliteStore) -> Result<BTreeSet<String>, StoreError> {
        let read = async |connection: &mut SqliteConnection| {
            let query = store.sql().query(PARKED_NAMES).bind(value::limit(Claimed::MAX_PARKED_NAMES));
            names(&query.fetch_one(connection).await?)
        };
        store.read(read).await
    }

    async fn take(
        store: &SqliteStore,
        claim: &Claim<'_>,
        _seen_at: Timestamp,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        let now = claim.now.unwrap_or_else(Timestamp::now);
        if !store.is_anything_due(now).await? {
            return Ok(());
        }
        let work =
            async |connection: &mut SqliteConnection| store.take(connection, claim, now, claimed).await;
        store.connections().engine_in_transaction(work).await
    }
}

impl SqliteStore {
    async fn is_anything_due(&self, now: Timestamp) -> Result<bool, StoreError> {
        let query = self.sql().scalar(ANYTHING_DUE).bind(now.as_micros());
        query.fetch_one(&self.connections().write).await.map_err(|error| self.failed(error))
    }

    async fn take(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
        claimed: &mut Claimed,
    ) -> sqlx::Result<()> {
        let mut found = self.find(connection, claim, now).await?;
        let fitting = rows_within_limit(sizes(&found), claim.max_bytes);
        claimed.cut = fitting < found.len();
        found.truncate(fitting);
        let seqs: Vec<i64> = found.iter().map(|(seq, _)| *seq).collect();
        if seqs.is_empty() {
            return Ok(());
        }
        self.sql()
            .query(LEASE)
            .bind(claim.owner.as_str().to_owned())
            .bind(now.as_micros())
            .bind(claim.token.as_i64())
            .bind((now + claim.lease).as_micros())
            .bind(value::seqs(&seqs))
            .bind(SUSPECT_LOST_LEASES)
            .execute(&mut *connection)
            .await?;
        let mut rest = &found[..];
        while !rest.is_empty() {
            let (slice, others) = rest.split_at(rows_within_limit(sizes(rest), READ_AHEAD_BYTES));
            self.read_leased(connection, claim, now, slice, claimed).await?;
            rest = others;
        }
        let place: HashMap<i64, usize> = seqs.into_iter().zip(0..).collect();
        claimed.events.sort_by_key(|leased| place.get(&leased.lease.seq).copied());
        Ok(())
    }

    /// Finds due rows, in the order of the claim.
    async fn find(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
    ) -> sqlx::Result<Vec<DueRow>> {
        let select = match claim.order {
            ClaimOrder::Due => BY_DUE,
            ClaimOrder::Seq => BY_SEQ,
        };
        let inserted_before = (!claim.skip_recent.is_zero()).then(|| (now - claim.skip_recent).as_micros());
        let query = self.sql().query(select).bind(now.as_micros()).bind(inserted_before);
        let rows = query.bind(value::limit(claim.limit)).fetch_all(connection).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Streams the rows, so that each is in memory only once.
    async fn read_leased(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
        slice: &[DueRow],
        claimed: &mut Claimed,
    ) -> sqlx::Result<()> {
        let seqs: Vec<i64> = slice.iter().map(|(seq, _)| *seq).collect();
        let mut rows = self.sql().query(ROWS).bind(value::seqs(&seqs)).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            match RowReader::new(&row).leased(claim, now) {
                Ok(leased) => claimed.events.push(leased),
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        Ok(())
    }
}

/// A JSON list of names.
fn names(row: &SqliteRow) -> sqlx::Result<BTreeSet<String>> {
    let names = row.text_at(0)?.unwrap_or_default();
    Ok(serde_json::from_str(&names).unwrap_or_default())
}

fn sizes(found: &[DueRow]) -> impl Iterator<Item = i64> + '_ {
    found.iter().map(|(_, size)| *size)
}
