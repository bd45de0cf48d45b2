//! Claims on PostgreSQL: one statement finds and leases due rows, in order.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::TryStreamExt as _;
use posthaste::store::{Claim, ClaimOrder, Claimed, Leased, Malformed, SUSPECT_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::row::event_columns;
use super::value::{self, Time, interval};
use crate::claim_floor::{ClaimRange, IndexPosition};
use crate::clock_and_pauses::ServerState;
use crate::row::RowReader;
use crate::store::claim::ClaimDialect;

/// The clock and the paused routes, in one round trip.
const SERVER_STATE: &str = r#"SELECT statement_timestamp(), ARRAY(SELECT route FROM "{table}_control")"#;

/// The names for which rows are parked. The recursion steps from name to name in the index, however many rows have the
/// same name.
pub(super) const PARKED_NAMES: &str = r#"WITH RECURSIVE names AS (
  (SELECT parked FROM "{table}" WHERE parked IS NOT NULL AND status NOT IN (1, 3) ORDER BY parked LIMIT 1)
  UNION ALL
  SELECT (SELECT parked FROM "{table}" WHERE parked > names.parked AND status NOT IN (1, 3) ORDER BY parked LIMIT 1)
  FROM names WHERE names.parked IS NOT NULL)
SELECT ARRAY(SELECT parked FROM (SELECT parked FROM names LIMIT 1000) AS first WHERE parked IS NOT NULL)"#;

// The statements contain these two numbers.
const _: () = assert!(Claimed::MAX_PARKED_NAMES == 1000 && SUSPECT_LOST_LEASES == 10);

/// The size of a row. The length of a value that is stored out of line is known without reading it.
macro_rules! size {
    () => {
        "coalesce(octet_length(payload), octet_length(payload_bytes), 0) + coalesce(octet_length(headers), 0) AS bytes"
    };
}

/// Leases those rows of `due` that fit, in its order: the first one in any case. RETURNING has no order, so
/// [`read`] sorts the rows.
///
/// The window has no ORDER BY: it takes the rows as they come and needs no sort.
///
/// `= ANY (ARRAY(…))` replaces a join: with a plan made while the table was empty, PostgreSQL may read all of it once
/// per row of a join.
macro_rules! lease {
    () => {
        concat!(
            r#",
picked AS MATERIALIZED (
  SELECT seq FROM (SELECT seq, bytes, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM due) AS summed
  WHERE total <= $6 OR total = bytes)
UPDATE "{table}" AS o SET
  locked_by = $2, locked_at = coalesce($1, statement_timestamp()), lease_token = $3,
  lease_until = coalesce($1, statement_timestamp()) + $4, parked = NULL,
  lost_leases = o.lost_leases
    + (o.lost_leases < 10 AND o.locked_by IS NOT NULL AND o.locked_by <> $2)::int
WHERE o.seq = ANY (ARRAY(SELECT seq FROM picked))
RETURNING (SELECT count(*) FROM due) AS due, o.available_at, o.locked_at, o.lost_leases, "#,
            event_columns!()
        )
    };
}

/// Claims in the order of the index, and steps over leased rows. MATERIALIZED makes PostgreSQL run the search once.
/// SKIP LOCKED leaves out rows that another claim or settlement has locked. ($7, $8) is where the range begins, and $9
/// where it ends.
pub(super) const BY_DUE: &str = concat!(
    r#"WITH due AS MATERIALIZED (
  SELECT seq, available_at, "#,
    size!(),
    r#" FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND (available_at, seq) > ($7, $8) AND available_at < $9
    AND (lease_until IS NULL OR lease_until <= coalesce($1, statement_timestamp()))
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY available_at, seq LIMIT {limit} FOR UPDATE SKIP LOCKED)"#,
    lease!()
);

/// Steps over rows that wait for their time. The first leased row ends the search, and it is looked for only before the
/// last row that fits. Waits for a row that another transaction is changing (no SKIP LOCKED), because its new state
/// decides what may be claimed.
pub(super) const BY_SEQ: &str = concat!(
    r#"WITH fitting AS MATERIALIZED (
  SELECT seq FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND (lease_until IS NULL OR lease_until <= coalesce($1, statement_timestamp()))
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY seq LIMIT {limit}),
due AS MATERIALIZED (
  SELECT seq, available_at, "#,
    size!(),
    r#" FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND (lease_until IS NULL OR lease_until <= coalesce($1, statement_timestamp()))
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
    AND seq < coalesce((SELECT seq FROM "{table}"
      WHERE status IN (0, 2) AND lease_until > coalesce($1, statement_timestamp())
        AND seq < (SELECT max(seq) FROM fitting)
      ORDER BY seq LIMIT 1), 9223372036854775807)
  ORDER BY seq LIMIT {limit} FOR UPDATE)"#,
    lease!()
);

/// Lets one claim of the strict mode run at a time. It is a lock of the transaction and not of the session, because
/// PgBouncer may give the next transaction another session.
const STRICT_LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name} order', 0))";

impl ClaimDialect for Postgres {
    async fn read_server_state(store: &PgStore) -> Result<ServerState, StoreError> {
        let state = store.connections().engine(async |connection| {
            let row = store.sql().query::<Postgres>(SERVER_STATE).fetch_one(connection).await?;
            let (now, paused): (Time, Vec<String>) = (row.try_get(0)?, row.try_get(1)?);
            Ok(ServerState { read_at: Instant::now(), now: now.0, paused: paused.into_iter().collect() })
        });
        state.await
    }

    async fn read_parked_names(store: PgStore) -> Result<BTreeSet<String>, StoreError> {
        let names = store.connections().engine(async |connection| {
            store.sql().scalar::<Postgres, Vec<String>>(PARKED_NAMES).fetch_one(connection).await
        });
        Ok(names.await?.into_iter().collect())
    }

    async fn take(
        store: &PgStore,
        claim: &Claim<'_>,
        seen_at: Timestamp,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        let taken = match claim.order {
            ClaimOrder::Seq => store.take_by_seq(claim).await?,
            ClaimOrder::Due => store.take_by_due(claim, seen_at).await?,
        };
        claimed.cut = taken.is_cut();
        for row in taken.rows {
            match row {
                Ok(leased) => claimed.events.push(leased),
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        Ok(())
    }
}

impl PgStore {
    async fn take_by_seq(&self, claim: &Claim<'_>) -> Result<TakenRows, StoreError> {
        let taken = self.connections().engine_in_transaction(async |connection| {
            self.sql().query::<Postgres>(STRICT_LOCK).execute(&mut *connection).await?;
            let query = self.sql().limited::<Postgres>(&[BY_SEQ], claim.limit).persistent(false);
            read(bind(query, claim), connection, claim).await
        });
        taken.await
    }

    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<TakenRows, StoreError> {
        let take = async |range: ClaimRange| {
            let taken = self.connections().engine(async |connection| {
                let query = self.sql().limited::<Postgres>(&[BY_DUE], claim.limit);
                let query = bind(query, claim).bind(Time(range.from.due)).bind(range.from.seq);
                let until = range.until.unwrap_or(Timestamp::from_micros(i64::MAX));
                read(query.bind(Time(until)), connection, claim).await
            });
            taken.await
        };
        self.claim_from_floor(claim, seen_at, take, |taken| taken.last).await
    }
}

type PgQuery = Query<'static, Postgres, PgArguments>;

fn bind(query: PgQuery, claim: &Claim<'_>) -> PgQuery {
    query
        .bind(value::now(claim.now))
        .bind(claim.owner.as_str())
        .bind(claim.token.as_i64())
        .bind(interval(claim.lease))
        .bind(interval(claim.skip_recent))
        .bind(value::limit(claim.max_bytes))
}

/// A leased row, or the reason why it cannot be read.
type ClaimedRow = Result<Leased, Malformed>;

/// The rows that a claim leased, in the order of the claim.
struct TakenRows {
    rows: Vec<ClaimedRow>,
    /// The number of rows that were examined. Those that did not fit stay due.
    due: usize,
    /// The index position of the last leased row. `None` if the claim has seen all that is due.
    last: Option<IndexPosition>,
}

impl TakenRows {
    /// True if the byte limit ended the claim.
    fn is_cut(&self) -> bool {
        self.rows.len() < self.due
    }
}

/// Streams the rows, so that each is in memory only once, and puts them into the order of the claim.
async fn read(query: PgQuery, connection: &mut PgConnection, claim: &Claim<'_>) -> sqlx::Result<TakenRows> {
    let (mut found, mut due) = (Vec::with_capacity(claim.limit), 0);
    let mut stream = query.fetch(connection);
    while let Some(row) = stream.try_next().await? {
        due = row.try_get::<i64, _>("due")?;
        found.push((position(&row)?, leased(&row, claim)));
    }
    match claim.order {
        ClaimOrder::Due => found.sort_unstable_by_key(|(position, _)| *position),
        ClaimOrder::Seq => found.sort_unstable_by_key(|(position, _)| position.seq),
    }
    let due = usize::try_from(due).unwrap_or_default();
    let may_be_more = due == claim.limit || found.len() < due;
    let last = found.last().map(|(position, _)| *position).filter(|_| may_be_more);
    Ok(TakenRows { rows: found.into_iter().map(|(_, row)| row).collect(), due, last })
}

fn position(row: &PgRow) -> sqlx::Result<IndexPosition> {
    let due: Time = row.try_get("available_at")?;
    Ok(IndexPosition { due: due.0, seq: row.try_get("seq")? })
}

fn leased(row: &PgRow, claim: &Claim<'_>) -> ClaimedRow {
    let mut reader = RowReader::new(row);
    let now = reader.time("locked_at").unwrap_or_default();
    reader.leased(claim, now)
}
