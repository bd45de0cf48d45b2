//! Settlements on SQLite: a lean statement for deliveries, and a general one that decides between retry and dead by the
//! row's own count of attempts.
//!
//! Rows are found by `seq` and must also have the right id: if the end of a file was lost, or the file was replaced,
//! the number may belong to another event.

use std::collections::HashMap;
use std::time::Duration;

use posthaste::store::{Backoff, LeaseToken, OnDone, Settle, Settled, Settlement};
use posthaste::{StoreError, Timestamp};
use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::{SqliteStore, value};
use crate::store::purge::move_done;
use crate::store::settle::{SettleDialect, SettledRow, VerdictParts, is_lean, settled};

/// The delivered events by `seq` and by id, as two separate lists: any row with one of these numbers and one of these
/// ids was delivered. The unary `+` keeps SQLite from looking up the ids in their own index.
macro_rules! delivered {
    () => {
        "WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND +event_id IN (SELECT value FROM jsonb_each(?2)) \
         AND status IN (0, 2)"
    };
}

/// A row that is DONE needs no lease token, so the column shows which statement settled the row.
pub(super) const DONE: &str = concat!(
    r#"UPDATE "{table}" SET status = 1, done_at = ?3, last_error = NULL, parked = NULL, put_off_since = NULL,
  put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = ?4 "#,
    delivered!()
);

/// Reads which rows the statement `DONE` has settled, if it did not find all of them.
pub(super) const DONE_BY: &str = r#"SELECT seq FROM "{table}"
WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND status = 1 AND lease_token = ?2"#;

/// The lean statement for deliveries whose rows are deleted.
pub(super) const DELETE: &str = concat!(r#"DELETE FROM "{table}" "#, delivered!(), " RETURNING seq");

/// The limit for putting off the row: the longest limit so far. NULL if this outcome has no limit.
macro_rules! limit {
    () => {
        "coalesce(max(o.put_off_limit, v.give_up_after), v.give_up_after)"
    };
}

/// True if this outcome gives up the row: the verdict says so, it was the last attempt, or the row was put off for too
/// long.
macro_rules! dies {
    () => {
        concat!(
            "v.verdict = 'dead' OR min(max(o.attempts, 0), 4294967294) + 1 >= v.max_attempts \
             OR ?3 - coalesce(o.put_off_since, ?3) >= ",
            limit!()
        )
    };
}

/// Every expression on the right sees the row as it was before. `attempts` stops at the end of its integer range.
pub(super) const GENERAL: &str = concat!(
    r#"UPDATE "{table}" AS o SET
  status = CASE WHEN v.verdict = 'done' THEN 1 WHEN "#,
    dies!(),
    r#" THEN 3 WHEN v.verdict = 'deferred' THEN 0 WHEN v.verdict = 'failed' THEN 2 ELSE o.status END,
  done_at = CASE WHEN v.verdict = 'done' OR "#,
    dies!(),
    r#" THEN ?3 ELSE o.done_at END,
  lost_leases = CASE WHEN v.verdict = 'done' OR "#,
    dies!(),
    r#" THEN o.lost_leases
    WHEN v.verdict = 'unreachable' THEN o.lost_leases - (o.lost_leases > 10) ELSE 0 END,
  parked = CASE WHEN "#,
    dies!(),
    r#" THEN NULL WHEN v.verdict = 'unreachable' THEN v.park END,
  put_off_since = CASE WHEN v.give_up_after IS NOT NULL THEN coalesce(o.put_off_since, ?3) END,
  put_off_limit = "#,
    limit!(),
    r#",
  available_at = CASE v.verdict
    WHEN 'failed' THEN ?3 + min(9223372036854775807 - ?3, coalesce(v.delays ->> min(max(o.attempts, 0), v.last_delay), 0))
    WHEN 'deferred' THEN ?3 + v.delay
    WHEN 'unreachable' THEN ?3 + v.delay
    ELSE o.available_at END,
  attempts = iif(v.verdict = 'failed', min(max(o.attempts, 0), 4294967294) + 1, o.attempts),
  deferrals = o.deferrals + (v.verdict = 'deferred'),
  last_error = CASE v.verdict WHEN 'done' THEN NULL WHEN 'deferred' THEN o.last_error ELSE v.error END,
  progress = CASE WHEN v.delivered IS NULL THEN o.progress ELSE (
    SELECT json_group_array(name) FROM (
      SELECT value AS name FROM json_each(v.delivered)
      UNION SELECT value FROM json_each(iif(json_valid(o.progress), o.progress, '[]')))) END,
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0
FROM (SELECT value ->> 'seq' AS seq, value ->> 'id' AS id, value ->> 'token' AS token, value ->> 'verdict' AS verdict,
    value ->> 'error' AS error, value ->> 'delay' AS delay, value ->> 'park' AS park,
    value ->> 'max_attempts' AS max_attempts, value -> 'delays' AS delays, value ->> 'last_delay' AS last_delay,
    value ->> 'give_up_after' AS give_up_after,
    nullif(value -> 'delivered', 'null') AS delivered
  FROM jsonb_each(?1)) AS v
WHERE o.seq = v.seq AND +o.event_id = coalesce(v.id, o.event_id) AND o.status IN (0, 2)
  AND (v.verdict = 'done' OR (o.locked_by = ?2 AND o.lease_token = v.token))
RETURNING seq, status, attempts"#
);

impl SettleDialect for Sqlite {
    async fn settle(store: &SqliteStore, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let now = settle.now.unwrap_or_else(Timestamp::now);
        let (lean, general): (Vec<_>, Vec<_>) = settle.settlements.iter().partition(|s| is_lean(s));
        // A single statement is a transaction of its own.
        let changed = if general.is_empty() && settle.on_done != OnDone::Archive {
            let work = async |connection: &mut SqliteConnection| {
                store.settle_lean(connection, settle, &lean, now).await
            };
            store.connections().engine(work).await?
        } else {
            let work = async |connection: &mut SqliteConnection| {
                store.settle_both(connection, settle, &lean, &general, now).await
            };
            store.connections().engine_in_transaction(work).await?
        };
        Ok(settled(settle, |lease| changed.get(&lease.seq).copied()))
    }
}

impl SqliteStore {
    async fn settle_both(
        &self,
        connection: &mut SqliteConnection,
        settle: &Settle<'_>,
        lean: &[&Settlement],
        general: &[&Settlement],
        now: Timestamp,
    ) -> sqlx::Result<SettledRows> {
        let mut changed = SettledRows::new();
        if !lean.is_empty() {
            changed = self.settle_lean(connection, settle, lean, now).await?;
        }
        if !general.is_empty() {
            changed.extend(self.settle_general(connection, settle, general, now).await?);
        }
        let rows = changed.iter().map(|(seq, row)| (*seq, *row));
        move_done::<Sqlite>(self.sql(), connection, settle, rows).await?;
        Ok(changed)
    }

    async fn settle_lean(
        &self,
        connection: &mut SqliteConnection,
        settle: &Settle<'_>,
        lean: &[&Settlement],
        now: Timestamp,
    ) -> sqlx::Result<SettledRows> {
        let seqs: Vec<i64> = lean.iter().map(|settlement| settlement.lease.seq).collect();
        let ids: Vec<&str> = lean.iter().map(|settlement| settlement.lease.id.as_str()).collect();
        let rows = match settle.on_done {
            OnDone::Delete => {
                let query = self.sql().query(DELETE).bind(value::seqs(&seqs)).bind(value::ids(&ids));
                query.fetch_all(connection).await?
            }
            OnDone::Keep | OnDone::Archive => {
                let mark = LeaseToken::random().as_i64();
                let query = self.sql().query(DONE).bind(value::seqs(&seqs)).bind(value::ids(&ids));
                let query = query.bind(now.as_micros()).bind(mark);
                let changed = query.execute(&mut *connection).await?.rows_affected();
                if changed == seqs.len() as u64 {
                    return Ok(seqs.into_iter().map(|seq| (seq, SettledRow::DONE)).collect());
                }
                let query = self.sql().query(DONE_BY).bind(value::seqs(&seqs)).bind(mark);
                query.fetch_all(connection).await?
            }
        };
        rows.iter().map(|row| Ok((row.try_get(0)?, SettledRow::DONE))).collect()
    }

    async fn settle_general(
        &self,
        connection: &mut SqliteConnection,
        settle: &Settle<'_>,
        general: &[&Settlement],
        now: Timestamp,
    ) -> sqlx::Result<SettledRows> {
        let entries: Vec<Entry<'_>> = general.iter().map(|settlement| Entry::new(settlement, now)).collect();
        let entries = serde_json::to_string(&entries).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let query = self.sql().query(GENERAL).bind(entries).bind(settle.owner.as_str().to_owned());
        let rows = query.bind(now.as_micros()).fetch_all(connection).await?;
        rows.iter().map(general_row).collect()
    }
}

/// The changed rows by `seq`.
type SettledRows = HashMap<i64, SettledRow>;

fn general_row(row: &SqliteRow) -> sqlx::Result<(i64, SettledRow)> {
    // Another program may have written anything into `attempts`, and a row that is given up keeps that value.
    let attempts = row.try_get(2).unwrap_or_default();
    Ok((row.try_get(0)?, SettledRow::new(row.try_get(1)?, attempts)))
}

/// A settlement as an element of the JSON list that the general statement takes. Durations are in microseconds.
#[derive(Serialize)]
struct Entry<'a> {
    seq: i64,
    id: Option<&'a str>,
    token: i64,
    verdict: &'static str,
    error: Option<&'a str>,
    delay: Option<i64>,
    park: Option<&'a str>,
    max_attempts: Option<u32>,
    delays: Option<Vec<i64>>,
    last_delay: Option<usize>,
    give_up_after: Option<i64>,
    delivered: Option<&'a [String]>,
}

impl<'a> Entry<'a> {
    fn new(settlement: &'a Settlement, now: Timestamp) -> Self {
        let parts = VerdictParts::of(&settlement.verdict);
        let micros = |delay| micros(delay, now);
        let delays = |backoff: &Backoff| backoff.delays.iter().copied().map(micros).collect();
        Self {
            seq: settlement.lease.seq,
            id: value::name(&settlement.lease.id),
            token: settlement.lease.token.as_i64(),
            verdict: parts.verdict,
            error: parts.error,
            delay: parts.delay.map(micros),
            park: parts.park,
            max_attempts: parts.backoff.map(|backoff| backoff.max_attempts),
            delays: parts.backoff.map(delays),
            last_delay: parts.backoff.map(|backoff| backoff.delays.len().saturating_sub(1)),
            give_up_after: parts.give_up_after.map(micros),
            delivered: (!settlement.delivered.is_empty()).then_some(&settlement.delivered),
        }
    }
}

/// A delay in microseconds, limited so that its end can be stored.
fn micros(delay: Duration, now: Timestamp) -> i64 {
    (now + delay).as_micros().saturating_sub(now.as_micros())
}
