//! Settlements: a lean statement for what was delivered, a general one that decides between retry and
//! dead from the row's own count.
//!
//! Rows are found by `seq` and are meant only if they have the id too: after a failover or a restore a sequence
//! gives a number again. In the lean statements `NOT IN (1, 3)` instead of `IN (0, 2)` keeps PostgreSQL from
//! looking for them in the indexes of what is pending: a plan that was made while the table was empty would
//! read all of those.

use std::collections::HashMap;

use posthaste::store::{Lease, OnDone, Settle, Settled, Settlement, Verdict};
use posthaste::{EventId, StoreError};
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, Postgres, Row as _};

use super::value::{self, interval};
use super::{PgStore, purge};
use crate::store::purge::PurgeDialect as _;
use crate::store::settle::{SettleDialect, SettledRow, is_lean, settled};

/// The pending rows with these numbers and ids. `IS TRUE` keeps PostgreSQL from making a join of it, for which it
/// might read the whole table; the pairs go into a hash table instead.
macro_rules! meant {
    () => {
        r#"
WHERE seq = ANY ($1) AND status NOT IN (1, 3)
  AND ((seq, event_id) IN (SELECT * FROM unnest($1::int8[], $2::text[]))) IS TRUE RETURNING event_id, seq"#
    };
}

pub(super) const DONE: &str = concat!(
    r#"UPDATE "{table}" SET status = 1, done_at = coalesce($3, statement_timestamp()), last_error = NULL,
  put_off_since = NULL, put_off_limit = NULL, parked = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0"#,
    meant!()
);

pub(super) const DELETE: &str = concat!(r#"DELETE FROM "{table}""#, meant!());

/// Whether the row dies: it is told to, or this was its last attempt, or it has been put off for too long.
macro_rules! dies {
    () => {
        "(v.verdict = 'dead'
      OR (v.verdict = 'failed' AND least(greatest(o.attempts, 0), 2147483646) + 1 >= v.max_attempts)
      OR (v.give_up_after IS NOT NULL AND coalesce($2, statement_timestamp())
        >= coalesce(o.put_off_since, $2, statement_timestamp()) + greatest(o.put_off_limit, v.give_up_after))) IS TRUE"
    };
}

/// Every right-hand side sees the row as it was. Counts stop growing where their column ends.
pub(super) const GENERAL: &str = concat!(
    r#"UPDATE "{table}" AS o SET
  status = CASE WHEN v.verdict = 'done' THEN 1 WHEN "#,
    dies!(),
    r#" THEN 3
    WHEN v.verdict = 'deferred' THEN 0 WHEN v.verdict = 'failed' THEN 2 ELSE o.status END,
  done_at = CASE WHEN v.verdict = 'done' OR "#,
    dies!(),
    r#" THEN coalesce($2, statement_timestamp()) ELSE o.done_at END,
  lost_leases = CASE WHEN v.verdict = 'done' OR "#,
    dies!(),
    r#" THEN o.lost_leases
    WHEN v.verdict = 'unreachable' THEN o.lost_leases - (o.lost_leases > 10)::int ELSE 0 END,
  available_at = CASE
    WHEN v.verdict = 'failed' THEN coalesce($2, statement_timestamp())
      + coalesce(($3::interval[])[least(v.first_delay + greatest(o.attempts, 0)::int8, v.last_delay)::int4], interval '0')
    WHEN v.verdict IN ('deferred', 'unreachable') THEN coalesce($2, statement_timestamp()) + v.delay
    ELSE o.available_at END,
  attempts = CASE WHEN v.verdict = 'failed' THEN least(greatest(o.attempts, 0), 2147483646) + 1 ELSE o.attempts END,
  deferrals = CASE WHEN v.verdict = 'deferred' THEN least(o.deferrals, 2147483646) + 1 ELSE o.deferrals END,
  last_error = CASE v.verdict WHEN 'done' THEN NULL WHEN 'deferred' THEN o.last_error ELSE v.error END,
  put_off_since = CASE WHEN v.give_up_after IS NOT NULL
    THEN coalesce(o.put_off_since, $2, statement_timestamp()) END,
  put_off_limit = CASE WHEN v.give_up_after IS NOT NULL THEN greatest(o.put_off_limit, v.give_up_after) END,
  parked = CASE WHEN v.verdict = 'unreachable' AND NOT "#,
    dies!(),
    r#" THEN v.park END,
  progress = CASE WHEN v.last_name < v.first_name THEN o.progress ELSE (
    SELECT array_agg(DISTINCT name) FROM unnest(o.progress || ($4::text[])[v.first_name:v.last_name]) AS name) END,
  locked_by = NULL, locked_at = NULL, lease_token = 0
FROM unnest($5::int8[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::interval[], $11::interval[],
    $12::text[], $13::int8[], $14::int8[], $15::int8[], $16::int4[], $17::int4[])
  AS v (seq, id, token, verdict, error, delay, give_up_after, park, max_attempts, first_delay, last_delay,
    first_name, last_name)
WHERE o.seq = v.seq AND o.event_id = v.id AND o.status IN (0, 2)
  AND (v.verdict = 'done' OR (o.locked_by = $1 AND o.lease_token = v.token))
RETURNING o.event_id, o.seq, o.status, o.attempts"#
);

impl SettleDialect for Postgres {
    async fn settle(store: &PgStore, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        store.0.state.settle_throttle.wait(settle.settlements.len()).await;
        let lean = settle.settlements.iter().all(is_lean);
        let changed = match (lean, settle.on_done) {
            (true, OnDone::Keep | OnDone::Delete) => {
                let work = async |connection: &mut PgConnection| store.settle_lean(connection, settle).await;
                store.connections().engine(work).await?
            }
            (false, OnDone::Keep) => {
                let work =
                    async |connection: &mut PgConnection| store.settle_general(connection, settle).await;
                store.connections().engine(work).await?
            }
            (_, on_done) => {
                if on_done == OnDone::Archive {
                    Self::prepare_archive(store).await;
                }
                let work =
                    async |connection: &mut PgConnection| store.settle_and_move(connection, settle).await;
                store.connections().engine_in_transaction(work).await?
            }
        };
        store.0.state.settle_throttle.over();
        let row = |lease: &Lease| changed.get(&lease.id).filter(|(seq, _)| *seq == lease.seq);
        Ok(settled(settle, |lease| row(lease).map(|(_, row)| *row)))
    }
}

impl PgStore {
    /// Delivered, all of them, and to be kept or deleted.
    async fn settle_lean(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> sqlx::Result<SettledRows> {
        let (seqs, ids, _) = value::leases(settle.settlements.iter().map(|settlement| &settlement.lease));
        let query = |text| self.sql().query::<Postgres>(text).bind(seqs).bind(ids);
        let query = match settle.on_done {
            OnDone::Delete => query(DELETE),
            OnDone::Keep | OnDone::Archive => query(DONE).bind(value::now(settle.now)),
        };
        let rows = query.fetch_all(connection).await?;
        let done = |row| id_and_seq(row).map(|(id, seq)| (id, (seq, SettledRow::DONE)));
        rows.iter().map(done).collect()
    }

    async fn settle_general(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> sqlx::Result<SettledRows> {
        let columns = SettlementColumns::new(settle.settlements);
        let rows = self
            .sql()
            .fresh::<Postgres>(GENERAL)
            .bind(settle.owner.as_str())
            .bind(value::now(settle.now))
            .bind(columns.delays)
            .bind(columns.names)
            .bind(columns.seq)
            .bind(columns.id)
            .bind(columns.token)
            .bind(columns.verdict)
            .bind(columns.error)
            .bind(columns.delay)
            .bind(columns.give_up_after)
            .bind(columns.park)
            .bind(columns.max_attempts)
            .bind(columns.first_delay)
            .bind(columns.last_delay)
            .bind(columns.first_name)
            .bind(columns.last_name)
            .fetch_all(connection)
            .await?;
        rows.iter().map(general_row).collect()
    }

    /// Marks, and then deletes or archives what is DONE.
    async fn settle_and_move(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> sqlx::Result<SettledRows> {
        let changed = self.settle_general(connection, settle).await?;
        // This transaction holds them, so that nothing else can have their numbers.
        let done = changed.values().filter(|(_, row)| row.is_done());
        let done: Vec<i64> = done.map(|(seq, _)| *seq).collect();
        match settle.on_done {
            OnDone::Keep => {}
            OnDone::Delete => Postgres::delete(self.sql(), connection, &done).await?,
            OnDone::Archive => purge::archive(self.sql(), connection, settle.now, &done).await?,
        }
        Ok(changed)
    }
}

/// The rows that a statement changed, with their `seq`.
type SettledRows = HashMap<EventId, (i64, SettledRow)>;

fn id_and_seq(row: &PgRow) -> sqlx::Result<(EventId, i64)> {
    Ok((row.try_get::<&str, _>(0)?.into(), row.try_get(1)?))
}

fn general_row(row: &PgRow) -> sqlx::Result<(EventId, (i64, SettledRow))> {
    let (id, seq) = id_and_seq(row)?;
    let (status, attempts): (i16, i32) = (row.try_get(2)?, row.try_get(3)?);
    Ok((id, (seq, SettledRow::new(status.into(), attempts.into()))))
}

/// Settlements as the general statement reads them: one list per column. Delays and names that are a
/// list of their own stand one behind the other in `delays` and `names`; positions count from one.
#[derive(Default)]
struct SettlementColumns<'a> {
    seq: Vec<i64>,
    id: Vec<&'a str>,
    token: Vec<i64>,
    verdict: Vec<&'static str>,
    error: Vec<Option<&'a str>>,
    delay: Vec<Option<PgInterval>>,
    give_up_after: Vec<Option<PgInterval>>,
    park: Vec<Option<&'a str>>,
    max_attempts: Vec<Option<i64>>,
    first_delay: Vec<i64>,
    last_delay: Vec<i64>,
    first_name: Vec<i32>,
    last_name: Vec<i32>,
    delays: Vec<PgInterval>,
    names: Vec<&'a str>,
}

impl<'a> SettlementColumns<'a> {
    fn new(settlements: &'a [Settlement]) -> Self {
        let mut columns = Self::default();
        let mut sorted: Vec<&Settlement> = settlements.iter().collect();
        // See `value::leases` for the order.
        sorted.sort_unstable_by_key(|settlement| settlement.lease.seq);
        sorted.into_iter().for_each(|settlement| columns.add(settlement));
        columns
    }

    fn add(&mut self, settlement: &'a Settlement) {
        let delay = |delay: &std::time::Duration| Some(interval(*delay));
        let mut give_up_after = None;
        let (verdict, error, delay, park, backoff) = match &settlement.verdict {
            Verdict::Done => ("done", None, None, None, None),
            Verdict::Failed { error, backoff } => ("failed", Some(error), None, None, Some(backoff)),
            Verdict::Deferred { delay: after } => ("deferred", None, delay(after), None, None),
            Verdict::Dead { reason } => ("dead", Some(reason), None, None, None),
            Verdict::Unreachable { error, delay: after, park, give_up_after: limit } => {
                give_up_after = limit.map(interval);
                ("unreachable", Some(error), delay(after), park.as_deref(), None)
            }
        };
        self.seq.push(settlement.lease.seq);
        self.id.push(settlement.lease.id.as_str());
        self.give_up_after.push(give_up_after);
        self.token.push(settlement.lease.token.as_i64());
        self.verdict.push(verdict);
        self.error.push(error.map(String::as_str));
        self.delay.push(delay);
        self.park.push(park);
        self.max_attempts.push(backoff.map(|backoff| backoff.max_attempts.into()));
        self.first_delay.push(next(&self.delays));
        self.delays.extend(backoff.iter().flat_map(|backoff| backoff.delays.iter().map(|d| interval(*d))));
        self.last_delay.push(next(&self.delays) - 1);
        self.first_name.push(next(&self.names) as i32);
        self.names.extend(settlement.delivered.iter().map(String::as_str));
        self.last_name.push(next(&self.names) as i32 - 1);
    }
}

/// The position of whatever is added next.
fn next<T>(list: &[T]) -> i64 {
    list.len() as i64 + 1
}
