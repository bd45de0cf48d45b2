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
use crate::claim_floor::{ClaimRange, IndexPosition};
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

/// The rows of a range that are due and not leased. (?2, ?3) is where the range begins, and ?4 where it ends.
macro_rules! claimable {
    () => {
        r#" FROM "{table}" INDEXED BY "{table}_due"
WHERE status IN (0, 2) AND available_at <= ?1 AND (available_at, seq) > (?2, ?3) AND available_at < ?4
  AND (lease_until IS NULL OR lease_until <= ?1)"#
    };
}

/// Tells whether a claim would find anything, without the write lock. An empty poll costs no more than that.
pub(super) const ANYTHING_DUE: &str = concat!("SELECT EXISTS (SELECT 1", claimable!(), ")");

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
    ", CAST(available_at AS INTEGER)",
    claimable!(),
    " AND (?5 IS NULL OR inserted_at <= ?5) ORDER BY available_at, seq LIMIT ?6"
);

/// Steps over rows that wait for their time. The first leased row ends the search, and it is looked for only before the
/// last row that fits.
pub(super) const BY_SEQ: &str = concat!(
    "SELECT seq, ",
    size!(),
    r#", CAST(available_at AS INTEGER) FROM "{table}" INDEXED BY "{table}_pending"
WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
  AND seq < coalesce((SELECT seq FROM "{table}" INDEXED BY "{table}_pending"
    WHERE status IN (0, 2) AND lease_until > ?1
      AND seq < (SELECT max(seq) FROM (SELECT seq FROM "{table}" INDEXED BY "{table}_pending"
        WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
        ORDER BY seq LIMIT ?3))
    ORDER BY seq LIMIT 1), 9223372036854775807)
ORDER BY seq LIMIT ?3"#
);

/// Leases rows. A lease that another owner left without an outcome counts as lost, up to the number at which the engine
/// suspects the event.
pub(super) const LEASE: &str = r#"UPDATE "{table}" SET
  locked_by = ?1, locked_at = ?2, lease_token = ?3, lease_until = ?4, parked = NULL,
  lost_leases = lost_leases + (locked_by IS NOT NULL AND locked_by <> ?1 AND lost_leases < ?6)
WHERE seq IN (SELECT value FROM jsonb_each(?5))"#;

pub(super) const ROWS: &str = concat!(
    "SELECT ",
    event_columns!(),
    r#" FROM "{table}" WHERE seq IN (SELECT value FROM jsonb_each(?1))"#
);

/// The driver's thread reads ahead, so each query is given rows of at most this many bytes.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// A row that can be claimed.
struct DueRow {
    position: IndexPosition,
    /// In bytes.
    size: i64,
}

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
        seen_at: Timestamp,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        let now = claim.now.unwrap_or_else(Timestamp::now);
        let mut take = async |range: ClaimRange| {
            if !store.is_anything_due(now, range).await? {
                return Ok(None);
            }
            let work = async |connection: &mut SqliteConnection| {
                store.take(connection, claim, now, range, claimed).await
            };
            store.connections().engine_in_transaction(work).await
        };
        match claim.order {
            ClaimOrder::Seq => take(ClaimRange::WHOLE).await?,
            ClaimOrder::Due => store.claim_from_floor(claim, seen_at, take, |last| *last).await?,
        };
        Ok(())
    }
}

impl SqliteStore {
    async fn is_anything_due(&self, now: Timestamp, range: ClaimRange) -> Result<bool, StoreError> {
        let (from, until) = bounds(range);
        let query = self.sql().scalar(ANYTHING_DUE).bind(now.as_micros()).bind(from.due.as_micros());
        let query = query.bind(from.seq).bind(until.as_micros());
        query.fetch_one(&self.connections().write).await.map_err(|error| self.failed(error))
    }

    /// Leases rows and reads them. Returns the position of the last one; `None` if the claim has seen all that is due
    /// in its range.
    async fn take(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
        range: ClaimRange,
        claimed: &mut Claimed,
    ) -> sqlx::Result<Option<IndexPosition>> {
        let mut found = self.find(connection, claim, now, range).await?;
        let fitting = rows_within_limit(sizes(&found), claim.max_bytes);
        claimed.cut = fitting < found.len();
        let may_be_more = claimed.cut || found.len() == claim.limit;
        found.truncate(fitting);
        let seqs: Vec<i64> = found.iter().map(|row| row.position.seq).collect();
        if seqs.is_empty() {
            return Ok(None);
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
        Ok(found.last().map(|row| row.position).filter(|_| may_be_more))
    }

    /// Finds due rows, in the order of the claim.
    async fn find(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
        range: ClaimRange,
    ) -> sqlx::Result<Vec<DueRow>> {
        let inserted_before = (!claim.skip_recent.is_zero()).then(|| (now - claim.skip_recent).as_micros());
        let query = match claim.order {
            ClaimOrder::Due => {
                let (from, until) = bounds(range);
                let query = self.sql().query(BY_DUE).bind(now.as_micros()).bind(from.due.as_micros());
                query.bind(from.seq).bind(until.as_micros())
            }
            ClaimOrder::Seq => self.sql().query(BY_SEQ).bind(now.as_micros()),
        };
        let rows = query.bind(inserted_before).bind(value::limit(claim.limit)).fetch_all(connection).await?;
        rows.iter().map(DueRow::read).collect()
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
        let seqs: Vec<i64> = slice.iter().map(|row| row.position.seq).collect();
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

impl DueRow {
    fn read(row: &SqliteRow) -> sqlx::Result<Self> {
        let due = Timestamp::from_micros(row.try_get(2)?);
        Ok(Self { position: IndexPosition { due, seq: row.try_get(0)? }, size: row.try_get(1)? })
    }
}

/// The position after which a range begins, and the time before which it ends.
fn bounds(range: ClaimRange) -> (IndexPosition, Timestamp) {
    (range.from, range.until.unwrap_or(Timestamp::from_micros(i64::MAX)))
}

/// A JSON list of names.
fn names(row: &SqliteRow) -> sqlx::Result<BTreeSet<String>> {
    let names = row.text_at(0)?.unwrap_or_default();
    Ok(serde_json::from_str(&names).unwrap_or_default())
}

fn sizes(found: &[DueRow]) -> impl Iterator<Item = i64> + '_ {
    found.iter().map(|row| row.size)
}
