//! Settlements: a lean statement for what was delivered, a general one that decides between retry and
//! dead from the row's own count.
//!
//! Rows are found by `seq`, and have to have the right id as well: the number of a row that is lost with the end
//! of its file, or that stands in another file, belongs to another event.

use std::collections::HashMap;
use std::time::Duration;

use posthaste::store::{Backoff, LeaseToken, OnDone, Settle, Settled, Settlement, Verdict};
use posthaste::{StoreError, Timestamp};
use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::{SqliteStore, purge, value};
use crate::store::purge::PurgeDialect as _;
use crate::store::settle::{SettleDialect, SettledRow, is_lean, settled};

/// What was delivered, by seq and by id: whatever row has one of these numbers and one of these ids is an event
/// that was delivered. `+`, so that nobody looks for the ids in their own index.
macro_rules! delivered {
    () => {
        "WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND +event_id IN (SELECT value FROM jsonb_each(?2)) \
         AND status IN (0, 2)"
    };
}

/// The token of a row that is DONE holds nothing: it tells which statement made it so.
pub(super) const DONE: &str = concat!(
    r#"UPDATE "{table}" SET status = 1, done_at = ?3, last_error = NULL, parked = NULL, put_off_since = NULL,
  put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_token = ?4 "#,
    delivered!()
);

pub(super) const DONE_BY: &str = r#"SELECT seq FROM "{table}"
WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND status = 1 AND lease_token = ?2"#;

pub(super) const DELETE: &str = concat!(r#"DELETE FROM "{table}" "#, delivered!(), " RETURNING seq");

/// For how long the row may be put off: the longest limit counts. NULL if this outcome has none.
macro_rules! limit {
    () => {
        "coalesce(max(o.put_off_limit, v.give_up_after), v.give_up_after)"
    };
}

/// Whether the row is given up after this outcome: said so, at its last attempt, or put off for too long.
macro_rules! dies {
    () => {
        concat!(
            "v.verdict = 'dead' OR min(max(o.attempts, 0), 4294967294) + 1 >= v.max_attempts \
             OR ?3 - coalesce(o.put_off_since, ?3) >= ",
            limit!()
        )
    };
}

/// Every right-hand side sees the row as it was. `attempts` stops growing where a count of ours ends.
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
  locked_by = NULL, locked_at = NULL, lease_token = 0
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
        // One statement is a transaction of its own.
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
        let done = changed.iter().filter(|(_, row)| row.is_done());
        let done: Vec<i64> = done.map(|(seq, _)| *seq).collect();
        match settle.on_done {
            OnDone::Keep => {}
            OnDone::Delete => Sqlite::delete(self.sql(), connection, &done).await?,
            OnDone::Archive => purge::archive(self.sql(), connection, &done).await?,
        }
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

/// The rows that a statement changed, by `seq`.
type SettledRows = HashMap<i64, SettledRow>;

fn general_row(row: &SqliteRow) -> sqlx::Result<(i64, SettledRow)> {
    // Whatever a foreign program left there, a row that is given up keeps it.
    let attempts = row.try_get(2).unwrap_or_default();
    Ok((row.try_get(0)?, SettledRow::new(row.try_get(1)?, attempts)))
}

/// A settlement as the general statement reads it. Durations are microseconds.
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
        let mut entry = Self {
            seq: settlement.lease.seq,
            id: value::name(&settlement.lease.id),
            token: settlement.lease.token.as_i64(),
            verdict: "done",
            error: None,
            delay: None,
            park: None,
            max_attempts: None,
            delays: None,
            last_delay: None,
            give_up_after: None,
            delivered: (!settlement.delivered.is_empty()).then_some(&settlement.delivered),
        };
        match &settlement.verdict {
            Verdict::Done => {}
            Verdict::Failed { error, backoff } => entry.fail(error, backoff, now),
            Verdict::Deferred { delay } => {
                entry.verdict = "deferred";
                entry.delay = Some(micros(*delay, now));
            }
            Verdict::Dead { reason } => {
                entry.verdict = "dead";
                entry.error = Some(reason);
            }
            Verdict::Unreachable { error, delay, park, give_up_after } => {
                entry.verdict = "unreachable";
                entry.error = Some(error);
                entry.delay = Some(micros(*delay, now));
                entry.park = park.as_deref();
                entry.give_up_after = give_up_after.map(|limit| micros(limit, now));
            }
        }
        entry
    }

    fn fail(&mut self, error: &'a str, backoff: &Backoff, now: Timestamp) {
        self.verdict = "failed";
        self.error = Some(error);
        self.max_attempts = Some(backoff.max_attempts);
        self.delays = Some(backoff.delays.iter().map(|delay| micros(*delay, now)).collect());
        self.last_delay = Some(backoff.delays.len().saturating_sub(1));
    }
}

/// A delay in microseconds, cut so that its end can be written.
fn micros(delay: Duration, now: Timestamp) -> i64 {
    (now + delay).as_micros().saturating_sub(now.as_micros())
}
