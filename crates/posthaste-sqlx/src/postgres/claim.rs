//! Claims: due rows, in order, one statement.

use std::collections::{BTreeSet, HashMap};
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
use crate::claim_floor::{ClaimRange, IndexPosition, MAX_COMMIT_LAG};
use crate::row::RowReader;
use crate::server_state_cache::ServerState;

/// The clock, and the routes that are paused.
const SERVER_STATE: &str = r#"SELECT statement_timestamp(), ARRAY(SELECT route FROM "{table}_control")"#;

/// What rows are parked for. From one name the index leads to the next, however many rows are parked for it.
pub(super) const PARKED_NAMES: &str = r#"WITH RECURSIVE names AS (
  (SELECT parked FROM "{table}" WHERE parked IS NOT NULL AND status NOT IN (1, 3) ORDER BY parked LIMIT 1)
  UNION ALL
  SELECT (SELECT parked FROM "{table}" WHERE parked > names.parked AND status NOT IN (1, 3) ORDER BY parked LIMIT 1)
  FROM names WHERE names.parked IS NOT NULL)
SELECT ARRAY(SELECT parked FROM (SELECT parked FROM names LIMIT 1000) AS first WHERE parked IS NOT NULL)"#;

// The two numbers that stand in the statements.
const _: () = assert!(Claimed::MAX_PARKED_NAMES == 1000 && SUSPECT_LOST_LEASES == 10);

/// What is summed up to the claim's bound. The length of a value that is stored apart is known without reading it.
macro_rules! sizes {
    () => {
        "coalesce(octet_length(payload), octet_length(payload_bytes), 0) AS payload, \
         coalesce(octet_length(headers), 0) AS headers"
    };
}

/// Leases of the rows that `due` names, in its order, those that fit. What RETURNING returns has no order and
/// knows no old due time, so one of the rows brings the order of all that are due, and each the last due time.
///
/// A window without an order of its own goes through the rows as they come, and so needs no sort.
///
/// `= ANY (ARRAY(…))` and not a join: for a plan that was made while the table was empty, PostgreSQL may
/// read all of it once for every row of a join.
macro_rules! lease {
    ($order:literal) => {
        concat!(
            r#",
picked AS MATERIALIZED (
  SELECT seq, available_at FROM (
    SELECT seq, available_at, row_number() OVER each AS place, sum(payload) OVER each + sum(headers) OVER each AS bytes
    FROM due WINDOW each AS (ROWS UNBOUNDED PRECEDING)) AS summed
  WHERE place = 1 OR bytes <= $6)
UPDATE "{table}" AS o SET
  locked_by = $2, locked_at = coalesce($1, statement_timestamp()), lease_token = $3,
  available_at = coalesce($1, statement_timestamp()) + $4, parked = NULL,
  lost_leases = o.lost_leases
    + (o.lost_leases < 10 AND o.locked_by IS NOT NULL AND o.locked_by <> $2)::int
WHERE o.seq = ANY (ARRAY(SELECT seq FROM picked))
RETURNING (SELECT max(available_at) FROM picked) AS last_due,
  CASE WHEN o.seq = (SELECT max(seq) FROM picked)
    THEN (SELECT array_agg(seq ORDER BY "#,
            $order,
            ") FROM due) END AS in_order, o.locked_at, o.lost_leases, ",
            event_columns!()
        )
    };
}

pub(super) const BY_DUE: &str = concat!(
    r#"WITH due AS MATERIALIZED (
  SELECT seq, available_at, "#,
    sizes!(),
    r#" FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND (available_at, seq) > ($7, $8) AND available_at < $9
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY available_at, seq LIMIT {limit} FOR UPDATE SKIP LOCKED)"#,
    lease!("available_at, seq")
);

/// Rows that wait for their time are stepped over; the first one on lease ends the search. Nobody looks
/// for one behind the last row that fits. A row that another transaction is changing is waited for: what it
/// becomes decides what may be claimed.
pub(super) const BY_SEQ: &str = concat!(
    r#"WITH fitting AS MATERIALIZED (
  SELECT seq FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY seq LIMIT {limit}),
due AS MATERIALIZED (
  SELECT seq, available_at, "#,
    sizes!(),
    r#" FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
    AND seq < coalesce((SELECT seq FROM "{table}"
      WHERE status IN (0, 2) AND locked_by IS NOT NULL AND available_at > coalesce($1, statement_timestamp())
        AND seq < (SELECT max(seq) FROM fitting)
      ORDER BY seq LIMIT 1), 9223372036854775807)
  ORDER BY seq LIMIT {limit} FOR UPDATE)"#,
    lease!("seq")
);

/// Ordered claims are serialised. A lock of the transaction's: the next one may be another session's.
const IN_TURN: &str = "SELECT pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name} order', 0))";

impl PgStore {
    pub(super) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let state = self.server_state().await?;
        let parked = self.0.parked_names.names(|| self.clone().read_parked_names()).await;
        let mut claimed = Claimed::default();
        (claimed.paused, claimed.parked) = (state.paused, parked);
        if claim.limit == 0 {
            return Ok(claimed);
        }
        let taken = match claim.order {
            ClaimOrder::Seq => self.take_by_seq(claim).await?,
            ClaimOrder::Due => self.take_by_due(claim, state.now).await?,
        };
        claimed.cut = taken.is_cut();
        for row in taken.rows {
            match row {
                Ok(leased) => claimed.events.push(leased),
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        Ok(claimed)
    }

    async fn server_state(&self) -> Result<ServerState, StoreError> {
        if let Some(state) = self.0.server_state.recent() {
            return Ok(state);
        }
        let state = self.connections().engine(async |connection| {
            let row = self.sql().query::<Postgres>(SERVER_STATE).fetch_one(connection).await?;
            let (now, paused): (Time, Vec<String>) = (row.try_get(0)?, row.try_get(1)?);
            Ok(ServerState { read_at: Instant::now(), now: now.0, paused: paused.into_iter().collect() })
        });
        let state = state.await?;
        self.0.server_state.set(Some(state.clone()));
        Ok(state)
    }

    async fn read_parked_names(self) -> Result<BTreeSet<String>, StoreError> {
        let names = self.connections().engine(async |connection| {
            self.sql().scalar::<Postgres, Vec<String>>(PARKED_NAMES).fetch_one(connection).await
        });
        Ok(names.await?.into_iter().collect())
    }

    async fn take_by_seq(&self, claim: &Claim<'_>) -> Result<TakenRows, StoreError> {
        let taken = self.connections().engine_in_transaction(async |connection| {
            self.sql().query::<Postgres>(IN_TURN).execute(&mut *connection).await?;
            let query = self.sql().limited::<Postgres>(&[BY_SEQ], claim.limit).persistent(false);
            read(bind(query, claim), connection, claim).await
        });
        taken.await
    }

    /// `seen_at` is a time of the server's clock before this claim.
    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<TakenRows, StoreError> {
        // A clock of the caller's own, or rows that are left for later, tell nothing about the next claim.
        let plain = claim.now.is_none() && claim.skip_recent.is_zero();
        let range = if plain { self.0.claim_floor.begin(seen_at) } else { ClaimRange::WHOLE };
        let started = Instant::now();
        let taken = self.connections().engine(async |connection| {
            let query = self.sql().limited::<Postgres>(&[BY_DUE], claim.limit);
            let query = bind(query, claim).bind(Time(range.from.due)).bind(range.from.seq);
            let until = range.until.unwrap_or(Timestamp::from_micros(i64::MAX));
            read(query.bind(Time(until)), connection, claim).await
        });
        let taken = taken.await;
        if plain && taken.is_err() {
            self.0.claim_floor.fail(&range, seen_at, started.elapsed());
        }
        let taken = taken?;
        if plain {
            let full = taken.due == claim.limit || taken.is_cut();
            // A batch that is not full has seen all that is due.
            let seen = taken
                .last
                .filter(|_| full)
                .unwrap_or(IndexPosition { due: seen_at - MAX_COMMIT_LAG, seq: 0 });
            self.0.claim_floor.end(&range, seen, full, started.elapsed());
            if range.is_partial() && !full {
                self.ring_for_sweep();
            }
        }
        Ok(taken)
    }

    /// A commit notifies once. If its row lies below the floor, the claim that follows does not see it.
    fn ring_for_sweep(&self) {
        let (Some(wake), Some(at)) = (self.0.wake.get().cloned(), self.0.claim_floor.plan_wake_up()) else {
            return;
        };
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            wake.notify();
        });
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

/// A row that was just leased, or why it cannot be read.
type ClaimedRow = Result<Leased, Malformed>;

/// Rows that were just leased, in the claim's order.
struct TakenRows {
    rows: Vec<ClaimedRow>,
    /// How many rows were looked at: those that did not fit are due as before.
    due: usize,
    /// Where the last one that was leased had stood.
    last: Option<IndexPosition>,
}

impl TakenRows {
    /// Whether the bytes and not the rows have ended it.
    fn is_cut(&self) -> bool {
        self.rows.len() < self.due
    }
}

/// Reads one row after the other: what the driver has of a row is gone before the next one comes.
async fn read(
    query: PgQuery,
    connection: &mut PgConnection,
    claim: &Claim<'_>,
) -> Result<TakenRows, sqlx::Error> {
    let (mut rows, mut order, mut last_due) = (Vec::new(), Vec::new(), None);
    let mut answer = query.fetch(connection);
    while let Some(row) = answer.try_next().await? {
        order.extend(row.try_get::<Option<Vec<i64>>, _>("in_order")?.unwrap_or_default());
        last_due = Some(row.try_get::<Time, _>("last_due")?.0);
        rows.push(leased(&row, claim));
    }
    let places: HashMap<i64, usize> = order.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
    rows.sort_by_cached_key(|row| places.get(&seq(row)).copied());
    let last = rows.last().zip(last_due).map(|(row, due)| IndexPosition { due, seq: seq(row) });
    Ok(TakenRows { rows, due: order.len(), last })
}

fn leased(row: &PgRow, claim: &Claim<'_>) -> ClaimedRow {
    let mut reader = RowReader::new(row);
    let now = reader.time("locked_at").unwrap_or_default();
    reader.leased(claim, now)
}

fn seq(row: &ClaimedRow) -> i64 {
    match row {
        Ok(leased) => leased.lease.seq,
        Err(malformed) => malformed.lease.seq,
    }
}
