//! Claims: due rows, in order, found and leased in one short transaction.

use std::time::Instant;

use posthaste::store::{Claim, ClaimOrder, Claimed, MAX_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::row::event_columns;
use super::value::{self, MOST_KEYS, at, bind_all, clock, delay, micros, places};
use crate::floor::Place;
use crate::glance::Seen;
use crate::row::Reader;

/// A row becomes visible when its transaction commits, later than it became due. Few take longer than
/// this; what does is left to the sweeps.
const LATE: std::time::Duration = std::time::Duration::from_secs(1);

const CLOCK: &str = concat!("SELECT ", micros!("UTC_TIMESTAMP(6)"));

pub(super) const PAUSED: &str = "SELECT route FROM `{table}_control`";

/// What a claim has to know of a row beside its event: the clock of the claim, and how often its owners
/// died, this time included.
macro_rules! found {
    () => {
        concat!(
            "SELECT ",
            micros!("c.now"),
            " AS now, ",
            micros!("o.phase_at"),
            " AS due, LEAST(o.lost_leases, 2147483646) + (o.locked_by IS NOT NULL AND o.locked_by <> ?) AS lost, ",
            event_columns!()
        )
    };
}

/// The index has exactly this order. Another would have to be sorted, and what is sorted is locked from
/// the first row to the last, so that a second claimer would find nothing.
pub(super) const BY_DUE: &str = concat!(
    found!(),
    " FROM (SELECT ",
    clock!(),
    " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_due`)
WHERE o.phase = 0 AND o.phase_at <= c.now AND o.phase_at >= ",
    at!(),
    " AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND)
ORDER BY o.phase_at, o.seq LIMIT ? FOR UPDATE SKIP LOCKED"
);

/// Rows that wait for their time are stepped over; the first one on lease ends the search. A row that
/// somebody is changing is waited for: what it becomes decides what may be claimed. So two such claims
/// never run at once: the second waits for the first row of the first, and then finds it on lease.
pub(super) const BY_SEQ: &str = concat!(
    found!(),
    ", o.available_at > c.now AS leased FROM (SELECT ",
    clock!(),
    " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_phase`)
WHERE o.phase = 0 AND (o.locked_by IS NOT NULL AND o.available_at > c.now
  OR o.available_at <= c.now AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND))
ORDER BY o.seq LIMIT ? FOR UPDATE"
);

pub(super) const LEASE: &str = concat!(
    "UPDATE `{table}` SET lost_leases = LEAST(lost_leases, 2147483646) + (locked_by IS NOT NULL AND locked_by <> ?),
  locked_by = ?, locked_at = ",
    at!(),
    ", lease_token = ?, available_at = ",
    at!(),
    ", parked = NULL WHERE seq IN ({keys})"
);

pub(super) const GIVE_UP: &str = concat!(
    "UPDATE `{table}` SET lost_leases = LEAST(lost_leases, 2147483646) + (locked_by IS NOT NULL AND locked_by <> ?),
  status = 3, done_at = ",
    at!(),
    ", last_error = CONCAT('its owner died ', lost_leases, ' times'),
  locked_by = NULL, locked_at = NULL, lease_token = 0, parked = NULL WHERE seq IN ({keys})"
);

impl MySqlStore {
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
        Ok(sort_out(claim, &rows, claimed))
    }

    async fn glance(&self) -> Result<Seen, StoreError> {
        if let Some(seen) = self.0.glance.recent() {
            return Ok(seen);
        }
        let seen = self.connections().engine(async |connection| {
            let now: i64 = self.sql().scalar::<MySql, _>(CLOCK).fetch_one(&mut *connection).await?;
            let paused = self.sql().query::<MySql>(PAUSED).fetch_all(connection).await?;
            let paused = paused.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            Ok(Seen { at: Instant::now(), now: Timestamp::from_micros(now), paused })
        });
        let seen = seen.await?;
        self.0.glance.set(Some(seen.clone()));
        Ok(seen)
    }

    async fn take_by_seq(&self, claim: &Claim<'_>) -> Result<Vec<MySqlRow>, StoreError> {
        let taken = self.connections().engine_together(async |connection| {
            let skip_recent = delay(claim.skip_recent);
            let query = self.sql().query::<MySql>(BY_SEQ).bind(claim.owner.as_str());
            let query = query.bind(value::now(claim.now)).bind(skip_recent).bind(skip_recent);
            let mut rows = query.bind(value::limit(claim.limit)).fetch_all(&mut *connection).await?;
            rows.truncate(rows.iter().position(is_leased).unwrap_or(rows.len()));
            self.take(connection, claim, &rows).await?;
            Ok(rows)
        });
        taken.await
    }

    /// `seen_at` is a time of the server's clock before this claim.
    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<Vec<MySqlRow>, StoreError> {
        // A clock of the caller's own, or rows that are left for later, tell nothing about the next claim.
        let plain = claim.now.is_none() && claim.skip_recent.is_zero();
        let from = if plain { self.0.floor.begin() } else { Place::BOTTOM };
        let started = Instant::now();
        let rows = self.connections().engine_together(async |connection| {
            let skip_recent = delay(claim.skip_recent);
            let query = self.sql().query::<MySql>(BY_DUE).bind(claim.owner.as_str());
            let query = query.bind(value::now(claim.now)).bind(value::time(from.due));
            let query = query.bind(skip_recent).bind(skip_recent).bind(value::limit(claim.limit));
            let rows = query.fetch_all(&mut *connection).await?;
            self.take(connection, claim, &rows).await?;
            Ok(rows)
        });
        let rows = rows.await?;
        if plain {
            let full = rows.len() == claim.limit;
            // A batch that is not full has seen all that is due.
            let last = rows.last().filter(|_| full).map(place);
            self.0.floor.end(from, last.unwrap_or(Place { due: seen_at - LATE, seq: 0 }), started.elapsed());
        }
        Ok(rows)
    }

    /// Leases rows that are locked, or gives them up.
    async fn take(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        rows: &[MySqlRow],
    ) -> Result<(), sqlx::Error> {
        let Some(now) = rows.first().map(|row| row.try_get::<i64, _>("now")).transpose()? else {
            return Ok(());
        };
        let (dead, alive): (Vec<&MySqlRow>, Vec<&MySqlRow>) = rows.iter().partition(|row| is_given_up(row));
        let seq = |row: &&MySqlRow| row.try_get::<i64, _>("seq");
        let mut alive = alive.iter().map(seq).collect::<Result<Vec<_>, _>>()?;
        // Those who change the same rows meet them in the same order.
        alive.sort_unstable();
        for seqs in alive.chunks(MOST_KEYS) {
            let query = self.sql().listed(LEASE, places(seqs.len()));
            let query = query.bind(claim.owner.as_str()).bind(claim.owner.as_str()).bind(now);
            let query = query.bind(claim.token.as_i64()).bind(now.saturating_add(delay(claim.lease)));
            bind_all(query, seqs).execute(&mut *connection).await?;
        }
        for seqs in dead.iter().map(seq).collect::<Result<Vec<_>, _>>()?.chunks(MOST_KEYS) {
            let query = self.sql().listed(GIVE_UP, places(seqs.len())).bind(claim.owner.as_str()).bind(now);
            bind_all(query, seqs).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

fn is_leased(row: &MySqlRow) -> bool {
    row.try_get::<i64, _>("leased").map_or(true, |leased| leased != 0)
}

/// Whether too many owners died with this row in their hands.
fn is_given_up(row: &MySqlRow) -> bool {
    row.try_get::<i64, _>("lost").is_ok_and(|lost| lost >= MAX_LOST_LEASES.into())
}

fn place(row: &MySqlRow) -> Place {
    let mut reader = Reader::new(row);
    Place { due: reader.time("due").unwrap_or_default(), seq: reader.seq() }
}

fn sort_out(claim: &Claim<'_>, rows: &[MySqlRow], mut claimed: Claimed) -> Claimed {
    for row in rows {
        let mut reader = Reader::new(row);
        if is_given_up(row) {
            claimed.died.push(reader.id());
            continue;
        }
        let now = reader.time("now").unwrap_or_default();
        match reader.leased(claim, now) {
            Ok(leased) => claimed.events.push(leased),
            Err(malformed) => claimed.malformed.push(malformed),
        }
    }
    claimed
}
