//! Settlements on PostgreSQL: a lean statement for deliveries, and a general one that decides between retry and dead by
//! the row's own count of attempts.
//!
//! Rows are found by `seq` and must also have the right id: after a failover or a restore, a sequence may return a
//! number a second time. The lean statements say `NOT IN (1, 3)` and not `IN (0, 2)`, because the latter lets
//! PostgreSQL use the indexes of pending rows: a plan made while the table was empty would read all pending rows.

use std::collections::HashMap;

use posthaste::store::{Lease, OnDone, Settle, Settled, Settlement};
use posthaste::{EventId, StoreError};
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::value::{self, interval};
use crate::store::purge::{PurgeDialect as _, move_done};
use crate::store::settle::{SettleDialect, SettledRow, VerdictParts, is_lean, settled};

/// The pending rows with these numbers and ids. `IS TRUE` keeps PostgreSQL from turning the condition into a join, for
/// which it might read the whole table. It uses a hash table of the pairs instead.
macro_rules! meant {
    () => {
        r#"
WHERE seq = ANY ($1) AND status NOT IN (1, 3)
  AND ((seq, event_id) IN (SELECT * FROM unnest($1::int8[], $2::text[]))) IS TRUE RETURNING event_id, seq"#
    };
}

/// The lean statement for deliveries whose rows are kept.
pub(super) const DONE: &str = concat!(
    r#"UPDATE "{table}" SET status = 1, done_at = coalesce($3, statement_timestamp()), last_error = NULL,
  put_off_since = NULL, put_off_limit = NULL, parked = NULL, locked_by = NULL, locked_at = NULL,
  lease_until = NULL, lease_token = 0"#,
    meant!()
);

/// The lean statement for deliveries whose rows are deleted.
pub(super) const DELETE: &str = concat!(r#"DELETE FROM "{table}""#, meant!());

/// True if this outcome gives up the row: the verdict says so, it was the last attempt, or the row was put off for too
/// long.
macro_rules! dies {
    () => {
        "(v.verdict = 'dead'
      OR (v.verdict = 'failed' AND least(greatest(o.attempts, 0), 2147483646) + 1 >= v.max_attempts)
      OR (v.give_up_after IS NOT NULL AND coalesce($2, statement_timestamp())
        >= coalesce(o.put_off_since, $2, statement_timestamp()) + greatest(o.put_off_limit, v.give_up_after))) IS TRUE"
    };
}

/// Every expression on the right sees the row as it was before. Counts stop at the end of their integer range.
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
  locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0
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
    /// Settles deliveries whose rows are kept or deleted.
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

    /// Settles all rows, and then deletes or archives those that are DONE.
    async fn settle_and_move(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> sqlx::Result<SettledRows> {
        let changed = self.settle_general(connection, settle).await?;
        move_done::<Postgres>(self.sql(), connection, settle, changed.values().copied()).await?;
        Ok(changed)
    }
}

/// The changed rows with their `seq`.
type SettledRows = HashMap<EventId, (i64, SettledRow)>;

fn id_and_seq(row: &PgRow) -> sqlx::Result<(EventId, i64)> {
    Ok((row.try_get::<&str, _>(0)?.into(), row.try_get(1)?))
}

fn general_row(row: &PgRow) -> sqlx::Result<(EventId, (i64, SettledRow))> {
    let (id, seq) = id_and_seq(row)?;
    let (status, attempts): (i16, i32) = (row.try_get(2)?, row.try_get(3)?);
    Ok((id, (seq, SettledRow::new(status.into(), attempts.into()))))
}

/// Settlements as parameters of the general statement: one list per column. The delays and names of all settlements are
/// in `delays` and `names`; each settlement has the positions of its first and last element, counted from one.
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
        // See `value::leases` for the reason of this order.
        sorted.sort_unstable_by_key(|settlement| settlement.lease.seq);
        sorted.into_iter().for_each(|settlement| columns.add(settlement));
        columns
    }

    fn add(&mut self, settlement: &'a Settlement) {
        let parts = VerdictParts::of(&settlement.verdict);
        self.seq.push(settlement.lease.seq);
        self.id.push(settlement.lease.id.as_str());
        self.token.push(settlement.lease.token.as_i64());
        self.verdict.push(parts.verdict);
        self.error.push(parts.error);
        self.delay.push(parts.delay.map(interval));
        self.give_up_after.push(parts.give_up_after.map(interval));
        self.park.push(parts.park);
        self.max_attempts.push(parts.backoff.map(|backoff| backoff.max_attempts.into()));
        self.first_delay.push(next(&self.delays));
        self.delays
            .extend(parts.backoff.iter().flat_map(|backoff| backoff.delays.iter().map(|d| interval(*d))));
        self.last_delay.push(next(&self.delays) - 1);
        self.first_name.push(next(&self.names) as i32);
        self.names.extend(settlement.delivered.iter().map(String::as_str));
        self.last_name.push(next(&self.names) as i32 - 1);
    }
}

/// The position of the next element.
fn next<T>(list: &[T]) -> i64 {
    list.len() as i64 + 1
}
