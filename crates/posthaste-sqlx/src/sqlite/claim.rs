//! Claims: due rows, in order, under the write lock.

use std::collections::BTreeSet;

use posthaste::store::{Claim, ClaimOrder, Claimed, MAX_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::row::event_columns;
use super::{SqliteStore, value};
use crate::row::Reader;

/// What an empty poll costs: a look at the head of the index, without the write lock.
pub(super) const GLANCE: &str = r#"SELECT
  (SELECT json_group_array(route) FROM "{table}_control"),
  EXISTS (SELECT 1 FROM "{table}" INDEXED BY "{table}_due" WHERE status IN (0, 2) AND available_at <= ?1)"#;

pub(super) const BY_DUE: &str = concat!(
    "SELECT locked_by, lost_leases, ",
    event_columns!(),
    r#" FROM "{table}" INDEXED BY "{table}_due"
WHERE status IN (0, 2) AND available_at <= ?1 AND (?2 IS NULL OR inserted_at <= ?2)
ORDER BY available_at, seq LIMIT ?3"#
);

/// Rows that wait for their time are stepped over; the first one on lease ends the search. Nobody looks
/// for one behind the last row that fits.
pub(super) const BY_SEQ: &str = concat!(
    "SELECT locked_by, lost_leases, ",
    event_columns!(),
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

pub(super) const LEASE: &str = r#"UPDATE "{table}" SET
  locked_by = ?1, locked_at = ?2, lease_token = ?3, available_at = ?4, parked = NULL,
  lost_leases = lost_leases + (locked_by IS NOT NULL AND locked_by <> ?1)
WHERE seq IN (SELECT value FROM jsonb_each(?5))"#;

pub(super) const GIVE_UP: &str = r#"UPDATE "{table}" SET
  status = 3, done_at = ?1, last_error = 'its owner died ' || (lost_leases + 1) || ' times',
  lost_leases = lost_leases + 1, locked_by = NULL, locked_at = NULL, lease_token = 0, parked = NULL
WHERE seq IN (SELECT value FROM jsonb_each(?2))"#;

impl SqliteStore {
    pub(super) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let now = claim.now.unwrap_or_else(Timestamp::now);
        let (paused, due) = self.glance(now).await?;
        let mut claimed = Claimed { paused, ..Claimed::default() };
        if !due || claim.limit == 0 {
            return Ok(claimed);
        }
        let mut tx = self.connections().begin().await?;
        self.take(&mut tx, claim, now, &mut claimed).await.map_err(|error| self.failed(error))?;
        tx.commit().await.map_err(|error| self.failed(error))?;
        Ok(claimed)
    }

    async fn glance(&self, now: Timestamp) -> Result<(BTreeSet<String>, bool), StoreError> {
        let connection = self.connections().write.acquire().await;
        let mut connection = connection.map_err(|error| self.failed(error))?;
        let query = self.sql().query(GLANCE).bind(now.as_micros());
        let row = query.fetch_one(&mut *connection).await.map_err(|error| self.failed(error))?;
        let read = || -> Result<_, sqlx::Error> { Ok((row.try_get::<String, _>(0)?, row.try_get(1)?)) };
        let (routes, due) = read().map_err(|error| self.failed(error))?;
        Ok((serde_json::from_str(&routes).unwrap_or_default(), due))
    }

    async fn take(
        &self,
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        now: Timestamp,
        claimed: &mut Claimed,
    ) -> Result<(), sqlx::Error> {
        let select = match claim.order {
            ClaimOrder::Due => BY_DUE,
            ClaimOrder::Seq => BY_SEQ,
        };
        let inserted_before = (!claim.skip_recent.is_zero()).then(|| (now - claim.skip_recent).as_micros());
        let query = self.sql().query(select).bind(now.as_micros()).bind(inserted_before);
        let rows = query.bind(value::limit(claim.limit)).fetch_all(&mut *connection).await?;
        let mut taken = Vec::with_capacity(rows.len());
        let mut dead = Vec::new();
        for row in &rows {
            let seq: i64 = row.try_get("seq")?;
            if is_given_up(row, claim) {
                dead.push(seq);
                claimed.died.push(Reader::new(row).id());
                continue;
            }
            taken.push(seq);
            match Reader::new(row).leased(claim, now) {
                Ok(leased) => claimed.events.push(leased),
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        if !taken.is_empty() {
            self.sql()
                .query(LEASE)
                .bind(claim.owner.as_str().to_owned())
                .bind(now.as_micros())
                .bind(claim.token.as_i64())
                .bind((now + claim.lease).as_micros())
                .bind(value::seqs(&taken))
                .execute(&mut *connection)
                .await?;
        }
        if !dead.is_empty() {
            self.sql()
                .query(GIVE_UP)
                .bind(now.as_micros())
                .bind(value::seqs(&dead))
                .execute(connection)
                .await?;
        }
        Ok(())
    }
}

/// Whether taking this row over would be the last straw. One's own lapsed lease is no loss.
fn is_given_up(row: &SqliteRow, claim: &Claim<'_>) -> bool {
    let mut reader = Reader::new(row);
    let abandoned = reader.text("locked_by").is_some_and(|owner| owner != claim.owner.as_str());
    abandoned && reader.count("lost_leases").saturating_add(1) >= MAX_LOST_LEASES
}
