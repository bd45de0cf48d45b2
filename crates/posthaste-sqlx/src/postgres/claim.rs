//! Claims: due rows, in order, one statement.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use posthaste::store::{Claim, ClaimOrder, Claimed, MAX_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::row::event_columns;
use super::value::{self, Time, interval};
use crate::floor::Place;
use crate::glance::Seen;
use crate::row::Reader;

/// A row becomes visible when its transaction commits, later than it became due. Few take longer than
/// this; what does is left to the sweeps.
const LATE: Duration = Duration::from_secs(1);

const GLANCE: &str =
    r#"SELECT statement_timestamp(), coalesce((SELECT array_agg(route) FROM "{table}_control"), '{}')"#;

/// Leases the rows that `picked` names. What RETURNING answers has no order and knows no old due time, so
/// one of the rows brings the order of all, and each the last due time.
///
/// `= ANY (ARRAY(…))` and not a join: for a plan that was made while the table was empty, PostgreSQL may
/// read all of it once for every row of a join.
macro_rules! lease {
    ($order:literal) => {
        concat!(
            r#"
UPDATE "{table}" AS o SET
  locked_by = $2, locked_at = coalesce($1, statement_timestamp()), lease_token = $3,
  available_at = coalesce($1, statement_timestamp()) + $4, parked = NULL,
  lost_leases = least(o.lost_leases, 2147483646) + (o.locked_by IS NOT NULL AND o.locked_by <> $2)::int
WHERE o.seq = ANY (ARRAY(SELECT seq FROM picked))
RETURNING (SELECT max(available_at) FROM picked) AS last_due,
  CASE WHEN o.seq = (SELECT max(seq) FROM picked)
    THEN (SELECT array_agg(seq ORDER BY "#,
            $order,
            ") FROM picked) END AS in_order, o.locked_at, o.lost_leases, ",
            event_columns!()
        )
    };
}

pub(super) const BY_DUE: &str = concat!(
    r#"WITH picked AS MATERIALIZED (
  SELECT seq, available_at FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND (available_at, seq) > ($6, $7)
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY available_at, seq LIMIT {limit} FOR UPDATE SKIP LOCKED)"#,
    lease!("available_at, seq")
);

/// Rows that wait for their time are stepped over; the first one on lease ends the search. Nobody looks
/// for one behind the last row that fits. A row that somebody is changing is waited for: what it
/// becomes decides what may be claimed.
pub(super) const BY_SEQ: &str = concat!(
    r#"WITH fitting AS MATERIALIZED (
  SELECT seq FROM "{table}"
  WHERE status IN (0, 2) AND available_at <= coalesce($1, statement_timestamp())
    AND ($5 = interval '0' OR inserted_at <= coalesce($1, statement_timestamp()) - $5)
  ORDER BY seq LIMIT {limit}),
picked AS MATERIALIZED (
  SELECT seq, available_at FROM "{table}"
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

pub(super) const GIVE_UP: &str = r#"UPDATE "{table}" SET
  status = 3, done_at = coalesce($1, statement_timestamp()),
  last_error = 'its owner died ' || lost_leases || ' times',
  locked_by = NULL, locked_at = NULL, lease_token = 0, parked = NULL
WHERE seq = ANY ($2) AND lease_token = $3 AND status NOT IN (1, 3)"#;

impl PgStore {
    pub(super) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let seen = self.glance().await?;
        let claimed = Claimed { paused: seen.paused.clone(), ..Claimed::default() };
        if claim.limit == 0 {
            return Ok(claimed);
        }
        let rows = match claim.order {
            ClaimOrder::Seq => self.take_by_seq(claim).await?,
            ClaimOrder::Due => self.take_by_due(claim, seen.now).await?,
        };
        self.sort_out(claim, rows, claimed).await
    }

    async fn glance(&self) -> Result<Seen, StoreError> {
        if let Some(seen) = self.0.glance.recent() {
            return Ok(seen);
        }
        let seen = self.connections().engine(async |connection| {
            let row = self.sql().query::<Postgres>(GLANCE).fetch_one(connection).await?;
            let paused: Vec<String> = row.try_get(1)?;
            let now: Time = row.try_get(0)?;
            Ok(Seen { at: Instant::now(), now: now.0, paused: paused.into_iter().collect() })
        });
        let seen = seen.await?;
        self.0.glance.set(Some(seen.clone()));
        Ok(seen)
    }

    async fn take_by_seq(&self, claim: &Claim<'_>) -> Result<Vec<PgRow>, StoreError> {
        let taken = self.connections().engine_together(async |connection| {
            self.sql().query::<Postgres>(IN_TURN).execute(&mut *connection).await?;
            let query = self.sql().limited::<Postgres>(&[BY_SEQ], claim.limit).persistent(false);
            bind(query, claim).fetch_all(connection).await
        });
        in_order(taken.await?).map(|taken| taken.rows).map_err(|error| self.connections().failed(error))
    }

    /// `seen_at` is a time of the server's clock before this claim.
    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<Vec<PgRow>, StoreError> {
        // A clock of the caller's own, or rows that are left for later, tell nothing about the next claim.
        let plain = claim.now.is_none() && claim.skip_recent.is_zero();
        let from = if plain { self.0.floor.begin() } else { Place::BOTTOM };
        let started = Instant::now();
        let taken = self.connections().engine(async |connection| {
            let query = self.sql().limited::<Postgres>(&[BY_DUE], claim.limit);
            bind(query, claim).bind(Time(from.due)).bind(from.seq).fetch_all(connection).await
        });
        let taken = in_order(taken.await?).map_err(|error| self.connections().failed(error))?;
        if plain {
            let full = taken.rows.len() == claim.limit;
            // A batch that is not full has seen all that is due.
            let seen = taken.last.filter(|_| full).unwrap_or(Place { due: seen_at - LATE, seq: 0 });
            self.0.floor.end(from, seen, started.elapsed());
            if from != Place::BOTTOM && !full {
                self.ring_for_sweep();
            }
        }
        Ok(taken.rows)
    }

    /// A commit rings once. If its row lies below the floor, the claim that follows does not see it.
    fn ring_for_sweep(&self) {
        let (Some(wake), Some(at)) = (self.0.wake.get().cloned(), self.0.floor.plan_ring()) else { return };
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            wake.ring();
        });
    }

    async fn sort_out(
        &self,
        claim: &Claim<'_>,
        rows: Vec<PgRow>,
        mut claimed: Claimed,
    ) -> Result<Claimed, StoreError> {
        let mut dead = Vec::new();
        for row in &rows {
            let mut reader = Reader::new(row);
            let seq = reader.seq();
            if reader.count("lost_leases") >= MAX_LOST_LEASES {
                dead.push(seq);
                claimed.died.push(reader.id());
                continue;
            }
            let now = reader.time("locked_at").unwrap_or_default();
            match reader.leased(claim, now) {
                Ok(leased) => claimed.events.push(leased),
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        if !dead.is_empty() {
            // A caller that goes away here leaves rows on lease that the next claim gives up.
            let work = async |connection: &mut PgConnection| {
                let query = self.sql().query::<Postgres>(GIVE_UP).bind(value::now(claim.now)).bind(dead);
                query.bind(claim.token.as_i64()).execute(connection).await
            };
            self.connections().engine(work).await?;
        }
        Ok(claimed)
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
}

/// Rows that were just leased, in the claim's order, and where the last one of them had stood.
struct Taken {
    rows: Vec<PgRow>,
    last: Option<Place>,
}

fn in_order(mut rows: Vec<PgRow>) -> Result<Taken, sqlx::Error> {
    let mut order: Vec<i64> = Vec::new();
    for row in &rows {
        order.extend(row.try_get::<Option<Vec<i64>>, _>("in_order")?.unwrap_or_default());
    }
    let Some(&seq) = order.last() else { return Ok(Taken { rows, last: None }) };
    let positions: HashMap<i64, usize> = order.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
    rows.sort_by_cached_key(|row| positions.get(&Reader::new(row).seq()).copied());
    let due: Time = rows[0].try_get("last_due")?;
    Ok(Taken { rows, last: Some(Place { due: due.0, seq }) })
}
