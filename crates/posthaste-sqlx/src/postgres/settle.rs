//! Settlements: a lean statement for what was delivered, a general one that decides between retry and
//! dead from the row's own count.
//!
//! Rows are found by `seq` alone: a sequence never gives the number of a committed row to another, so it
//! stands for the id. In the lean statements `NOT IN (1, 3)` instead of `IN (0, 2)` keeps PostgreSQL from
//! looking for them in the indexes of what is pending: a plan that was made while the table was empty would
//! read all of those.

use std::collections::HashMap;

use posthaste::store::{OnDone, Settle, Settled, Settlement, Verdict};
use posthaste::{Status, StoreError, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, Postgres, Row as _};

use super::value::{self, Time, interval};
use super::{PgStore, purge};

pub(super) const DONE: &str = r#"UPDATE "{table}" SET status = 1, done_at = coalesce($2, statement_timestamp()),
  last_error = NULL, parked = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0
WHERE seq = ANY ($1) AND status NOT IN (1, 3) RETURNING seq"#;

pub(super) const DELETE: &str =
    r#"DELETE FROM "{table}" WHERE seq = ANY ($1) AND status NOT IN (1, 3) RETURNING seq"#;

/// Every right-hand side sees the row as it was. Counts stop growing where their column ends.
pub(super) const GENERAL: &str = r#"UPDATE "{table}" AS o SET
  status = CASE v.verdict
    WHEN 'done' THEN 1 WHEN 'dead' THEN 3 WHEN 'deferred' THEN 0
    WHEN 'failed' THEN CASE WHEN least(greatest(o.attempts, 0), 2147483646) + 1 >= v.max_attempts THEN 3 ELSE 2 END
    ELSE o.status END,
  done_at = CASE
    WHEN v.verdict IN ('done', 'dead') THEN coalesce($2, statement_timestamp())
    WHEN v.verdict = 'failed' AND least(greatest(o.attempts, 0), 2147483646) + 1 >= v.max_attempts
      THEN coalesce($2, statement_timestamp())
    ELSE o.done_at END,
  available_at = CASE
    WHEN v.verdict = 'failed' THEN coalesce($2, statement_timestamp())
      + coalesce(($3::interval[])[least(v.first_delay + greatest(o.attempts, 0)::int8, v.last_delay)::int4], interval '0')
    WHEN v.verdict IN ('deferred', 'unreachable') THEN coalesce($2, statement_timestamp()) + v.delay
    ELSE o.available_at END,
  attempts = CASE WHEN v.verdict = 'failed' THEN least(greatest(o.attempts, 0), 2147483646) + 1 ELSE o.attempts END,
  deferrals = CASE WHEN v.verdict = 'deferred' THEN least(o.deferrals, 2147483646) + 1 ELSE o.deferrals END,
  last_error = CASE v.verdict WHEN 'done' THEN NULL WHEN 'deferred' THEN o.last_error ELSE v.error END,
  parked = CASE WHEN v.verdict = 'unreachable' THEN v.park END,
  progress = CASE WHEN v.last_name < v.first_name THEN o.progress ELSE (
    SELECT array_agg(DISTINCT name) FROM unnest(o.progress || ($4::text[])[v.first_name:v.last_name]) AS name) END,
  locked_by = NULL, locked_at = NULL, lease_token = 0
FROM unnest($5::int8[], $6::int8[], $7::text[], $8::text[], $9::interval[], $10::text[], $11::int8[],
    $12::int8[], $13::int8[], $14::int4[], $15::int4[])
  AS v (seq, token, verdict, error, delay, park, max_attempts, first_delay, last_delay, first_name, last_name)
WHERE o.seq = v.seq AND o.status IN (0, 2)
  AND (v.verdict = 'done' OR (o.locked_by = $1 AND o.lease_token = v.token))
RETURNING o.seq, o.status, o.attempts, o.available_at, coalesce($2, statement_timestamp()) AS now"#;

impl PgStore {
    pub(super) async fn settle_rows(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        if settle.settlements.is_empty() {
            return Ok(Vec::new());
        }
        self.0.pace.wait(settle.settlements.len()).await;
        let lean = settle.settlements.iter().all(is_lean);
        let changed = match (lean, settle.on_done) {
            (true, OnDone::Keep | OnDone::Delete) => {
                self.connections()
                    .engine(async |connection| self.settle_lean(connection, settle).await)
                    .await?
            }
            (false, OnDone::Keep) => {
                let work =
                    async |connection: &mut PgConnection| self.settle_general(connection, settle).await;
                self.connections().engine(work).await?
            }
            (_, on_done) => {
                if on_done == OnDone::Archive {
                    self.prepare_archive().await?;
                }
                let work =
                    async |connection: &mut PgConnection| self.settle_and_move(connection, settle).await;
                self.connections().engine_together(work).await?
            }
        };
        self.0.pace.over();
        Ok(answers(settle, &changed))
    }

    /// Delivered, all of them, and to be kept or deleted.
    async fn settle_lean(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> Result<Changed, sqlx::Error> {
        let mut seqs: Vec<i64> = settle.settlements.iter().map(|settlement| settlement.lease.seq).collect();
        // See `value::leases` for the order.
        seqs.sort_unstable();
        let query = match settle.on_done {
            OnDone::Delete => self.sql().query::<Postgres>(DELETE).bind(seqs),
            OnDone::Keep | OnDone::Archive => {
                self.sql().query::<Postgres>(DONE).bind(seqs).bind(value::now(settle.now))
            }
        };
        let rows = query.fetch_all(connection).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, Row::DONE))).collect()
    }

    async fn settle_general(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> Result<Changed, sqlx::Error> {
        let columns = Columns::new(settle.settlements);
        let rows = self
            .sql()
            .fresh::<Postgres>(GENERAL)
            .bind(settle.owner.as_str())
            .bind(value::now(settle.now))
            .bind(columns.delays)
            .bind(columns.names)
            .bind(columns.seq)
            .bind(columns.token)
            .bind(columns.verdict)
            .bind(columns.error)
            .bind(columns.delay)
            .bind(columns.park)
            .bind(columns.max_attempts)
            .bind(columns.first_delay)
            .bind(columns.last_delay)
            .bind(columns.first_name)
            .bind(columns.last_name)
            .fetch_all(connection)
            .await?;
        rows.iter().map(Row::read).collect()
    }

    /// Marks, and then deletes or archives what is DONE.
    async fn settle_and_move(
        &self,
        connection: &mut PgConnection,
        settle: &Settle<'_>,
    ) -> Result<Changed, sqlx::Error> {
        let changed = self.settle_general(connection, settle).await?;
        let is_done = |(seq, row): (&i64, &Row)| (row.status == Status::Done).then_some(*seq);
        let done: Vec<i64> = changed.iter().filter_map(is_done).collect();
        match settle.on_done {
            OnDone::Keep => {}
            OnDone::Delete => purge::delete(self.sql(), connection, &done).await?,
            OnDone::Archive => purge::archive(self.sql(), connection, &done).await?,
        }
        Ok(changed)
    }
}

/// Delivered, and nothing else to write.
fn is_lean(settlement: &Settlement) -> bool {
    settlement.verdict == Verdict::Done && settlement.delivered.is_empty()
}

/// The rows that a statement changed, by `seq`.
type Changed = HashMap<i64, Row>;

#[derive(Clone, Copy)]
struct Row {
    status: Status,
    attempts: u32,
    available_at: Timestamp,
    now: Timestamp,
}

impl Row {
    const DONE: Self = Self {
        status: Status::Done,
        attempts: 0,
        available_at: Timestamp::from_micros(0),
        now: Timestamp::from_micros(0),
    };

    fn read(row: &PgRow) -> Result<(i64, Self), sqlx::Error> {
        let status: i16 = row.try_get(1)?;
        let attempts: i32 = row.try_get(2)?;
        let (available_at, now): (Time, Time) = (row.try_get(3)?, row.try_get(4)?);
        let changed = Self {
            status: Status::from_code(status.into()).unwrap_or(Status::New),
            attempts: u32::try_from(attempts).unwrap_or(0),
            available_at: available_at.0,
            now: now.0,
        };
        Ok((row.try_get(0)?, changed))
    }
}

fn answers(settle: &Settle<'_>, changed: &Changed) -> Vec<Settled> {
    let answer = |settlement: &Settlement| match changed.get(&settlement.lease.seq) {
        None => Settled::Stale,
        Some(row) => answer(settlement, row),
    };
    settle.settlements.iter().map(answer).collect()
}

fn answer(settlement: &Settlement, row: &Row) -> Settled {
    match (&settlement.verdict, row.status) {
        (_, Status::Done) => Settled::Done,
        (_, Status::Dead) => Settled::Dead { attempts: row.attempts },
        (Verdict::Deferred { delay } | Verdict::Unreachable { delay, .. }, _) => {
            Settled::Waiting { delay: *delay }
        }
        _ => Settled::Retry { attempts: row.attempts, delay: row.available_at.since(row.now) },
    }
}

/// Settlements as the general statement reads them: one list per column. Delays and names that are a
/// list of their own stand one behind the other in `delays` and `names`; positions count from one.
#[derive(Default)]
struct Columns<'a> {
    seq: Vec<i64>,
    token: Vec<i64>,
    verdict: Vec<&'static str>,
    error: Vec<Option<&'a str>>,
    delay: Vec<Option<PgInterval>>,
    park: Vec<Option<&'a str>>,
    max_attempts: Vec<Option<i64>>,
    first_delay: Vec<i64>,
    last_delay: Vec<i64>,
    first_name: Vec<i32>,
    last_name: Vec<i32>,
    delays: Vec<PgInterval>,
    names: Vec<&'a str>,
}

impl<'a> Columns<'a> {
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
        let (verdict, error, delay, park, backoff) = match &settlement.verdict {
            Verdict::Done => ("done", None, None, None, None),
            Verdict::Failed { error, backoff } => ("failed", Some(error), None, None, Some(backoff)),
            Verdict::Deferred { delay: after } => ("deferred", None, delay(after), None, None),
            Verdict::Dead { reason } => ("dead", Some(reason), None, None, None),
            Verdict::Unreachable { error, delay: after, park } => {
                ("unreachable", Some(error), delay(after), park.as_deref(), None)
            }
        };
        self.seq.push(settlement.lease.seq);
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
