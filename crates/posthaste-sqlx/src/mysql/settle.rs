//! Settlements on MySQL: a lean statement for deliveries, and a general one that decides between retry and dead by the
//! row's own count of attempts.
//!
//! An UPDATE returns no rows here, only how many it found. If it found all of them, nothing else is read. Otherwise a
//! second query reads the rows, each of which keeps the mark of the call that settled it last. (Between the two
//! statements another node may settle a row again. That this call settled it before is then known only if the UPDATE
//! found all rows.) Rows are found by `seq` and must also have the right id: after a failover to a lagging replica, the
//! server may assign a number a second time.

use std::collections::HashMap;

use posthaste::store::{Backoff, OnDone, Settle, Settled, Settlement};
use posthaste::{Status, StoreError};
use posthaste_sql_writer::mysql::Flavour;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::value::{MAX_KEYS, bind_all, clock, delay, json, now, placeholder_count};
use crate::store::purge::move_done;
use crate::store::settle::{SettleDialect, SettledRow, VerdictParts, is_lean, settled};

/// `IS TRUE` keeps the server from looking up the ids in their own index. Ids and numbers are two separate lists: any
/// row with one of these numbers and one of these ids is a delivered event.
pub(super) const DONE: &str = concat!(
    "UPDATE `{table}` SET status = 1, done_at = ",
    clock!(),
    ", last_error = NULL, parked = NULL, put_off_since = NULL, put_off_limit = NULL, locked_by = NULL,
  locked_at = NULL, lease_until = NULL, lease_token = 0, settlement = ?
WHERE seq IN ({keys}) AND (event_id IN ({keys})) IS TRUE AND status IN (0, 2)"
);

/// Only MariaDB supports RETURNING in a DELETE.
pub(super) const DELETE: &str = "DELETE FROM `{table}` WHERE seq IN ({keys}) AND (event_id IN ({keys})) IS TRUE AND status IN (0, 2) RETURNING seq";

/// The limit for putting off the row: the longest limit so far. NULL if this outcome has no limit.
macro_rules! limit {
    () => {
        "COALESCE(GREATEST(o.put_off_limit, v.give_up_after), v.give_up_after)"
    };
}

/// True if this outcome gives up the row: the verdict says so, it was the last attempt, or the row was put off for too
/// long.
macro_rules! dies {
    () => {
        concat!(
            "(v.verdict = 'dead' OR LEAST(GREATEST(o.attempts, 0), 2147483646) + 1 >= v.max_attempts \
             OR TIMESTAMPDIFF(MICROSECOND, COALESCE(o.put_off_since, c.now), c.now) >= ",
            limit!(),
            ")"
        )
    };
}

/// An UPDATE of several tables assigns columns in no defined order. So no expression reads a column that is assigned
/// here, except `attempts`, `put_off_since` and `put_off_limit`, which come last. Counts stop at the end of their
/// integer range.
pub(super) const GENERAL: &str = concat!(
    "UPDATE (SELECT ",
    clock!(),
    " AS now, CAST(? AS SIGNED) AS mark) AS c STRAIGHT_JOIN JSON_TABLE(?, '$[*]' COLUMNS (
    seq BIGINT PATH '$[0]', id VARCHAR(36) CHARACTER SET utf8mb4 PATH '$[1]', token BIGINT PATH '$[2]',
    verdict VARCHAR(16) PATH '$[3]', error LONGTEXT CHARACTER SET utf8mb4 PATH '$[4]', delay BIGINT PATH '$[5]',
    park VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[6]', max_attempts BIGINT PATH '$[7]', delays LONGTEXT PATH '$[8]',
    names LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]', give_up_after BIGINT PATH '$[10]')) AS v
  STRAIGHT_JOIN `{table}` AS o ON o.seq = v.seq
SET o.settlement = c.mark,
  o.status = CASE WHEN v.verdict = 'done' THEN 1 WHEN ",
    dies!(),
    " THEN 3 WHEN v.verdict = 'deferred' THEN 0 WHEN v.verdict = 'failed' THEN 2 ELSE o.status END,
  o.done_at = IF(v.verdict = 'done' OR ",
    dies!(),
    ", c.now, o.done_at),
  o.lost_leases = CASE WHEN v.verdict = 'done' OR ",
    dies!(),
    " THEN o.lost_leases WHEN v.verdict = 'unreachable' THEN o.lost_leases - (o.lost_leases > 10) ELSE 0 END,
  o.parked = CASE WHEN ",
    dies!(),
    " THEN NULL WHEN v.verdict = 'unreachable' THEN v.park END,
  o.available_at = CASE
    WHEN v.verdict = 'failed' THEN c.now + INTERVAL CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(
      v.delays, ',', LEAST(GREATEST(o.attempts, 0), 1000) + 1), ',', -1) AS SIGNED) MICROSECOND
    WHEN v.verdict IN ('deferred', 'unreachable') THEN c.now + INTERVAL v.delay MICROSECOND
    ELSE o.available_at END,
  o.deferrals = IF(v.verdict = 'deferred', LEAST(o.deferrals, 2147483646) + 1, o.deferrals),
  o.last_error = CASE v.verdict WHEN 'done' THEN NULL WHEN 'deferred' THEN o.last_error ELSE v.error END,
  o.progress = IF(v.names IS NULL, o.progress,
    JSON_MERGE_PRESERVE(IF(JSON_VALID(o.progress), o.progress, '[]'), v.names)),
  o.locked_by = NULL, o.locked_at = NULL, o.lease_until = NULL, o.lease_token = 0,
  o.attempts = IF(v.verdict = 'failed', LEAST(GREATEST(o.attempts, 0), 2147483646) + 1, o.attempts),
  o.put_off_since = IF(v.give_up_after IS NULL, NULL, COALESCE(o.put_off_since, c.now)),
  o.put_off_limit = ",
    limit!(),
    "
WHERE o.event_id = v.id AND o.status IN (0, 2)
  AND (v.verdict = 'done' OR o.locked_by = ? AND o.lease_token = v.token)"
);

/// The state of rows, and whether this call was the last one to settle them.
pub(super) const SETTLED: &str =
    "SELECT seq, status, attempts, settlement = ? FROM `{table}` WHERE seq IN ({keys})";

impl SettleDialect for MySql {
    async fn settle(store: &MySqlStore, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        store.0.state.settle_throttle.wait(settle.settlements.len()).await;
        let batch = SettleBatch::new(settle.settlements);
        let lean = settle.settlements.iter().all(is_lean);
        let changed = match (lean, settle.on_done, store.0.state.flavour) {
            (true, OnDone::Keep, _) => {
                let work = async |connection: &mut MySqlConnection| {
                    store.settle_lean(connection, settle, &batch).await
                };
                store.connections().engine(work).await?
            }
            (true, OnDone::Delete, Flavour::MariaDb) => {
                let work =
                    async |connection: &mut MySqlConnection| store.delete_lean(connection, &batch).await;
                match batch.seqs.len() <= MAX_KEYS {
                    true => store.connections().engine(work).await?,
                    // A transaction, because a try that failed half way would not know which rows it has deleted.
                    false => store.connections().engine_in_transaction(work).await?,
                }
            }
            (false, OnDone::Keep, _) => {
                let work = async |connection: &mut MySqlConnection| {
                    store.settle_general(connection, settle, &batch).await
                };
                store.connections().engine(work).await?
            }
            (_, OnDone::Delete | OnDone::Archive, _) => {
                let work = async |connection: &mut MySqlConnection| {
                    store.settle_and_move(connection, settle, &batch).await
                };
                store.connections().engine_in_transaction(work).await?
            }
        };
        store.0.state.settle_throttle.over();
        Ok(settled(settle, |lease| changed.get(&lease.seq).copied()))
    }
}

impl MySqlStore {
    /// Settles deliveries whose rows are kept.
    async fn settle_lean(
        &self,
        connection: &mut MySqlConnection,
        settle: &Settle<'_>,
        batch: &SettleBatch<'_>,
    ) -> sqlx::Result<SettledRows> {
        let mut changed = SettledRows::new();
        for (seqs, ids) in batch.chunks() {
            let query =
                self.sql().listed(DONE, placeholder_count(seqs.len())).bind(now(settle.now)).bind(batch.mark);
            let done = bind_all(bind_all(query, seqs), ids).execute(&mut *connection).await?;
            match done.rows_affected() == seqs.len() as u64 {
                true => changed.extend(seqs.iter().map(|seq| (*seq, SettledRow::DONE))),
                false => changed.extend(self.read_settled(connection, seqs, batch.mark, false).await?),
            }
        }
        Ok(changed)
    }

    /// Settles deliveries whose rows are deleted.
    async fn delete_lean(
        &self,
        connection: &mut MySqlConnection,
        batch: &SettleBatch<'_>,
    ) -> sqlx::Result<SettledRows> {
        let mut changed = SettledRows::new();
        for (seqs, ids) in batch.chunks() {
            let query = self.sql().listed(DELETE, placeholder_count(seqs.len()));
            for row in &bind_all(bind_all(query, seqs), ids).fetch_all(&mut *connection).await? {
                changed.insert(row.try_get(0)?, SettledRow::DONE);
            }
        }
        Ok(changed)
    }

    async fn settle_general(
        &self,
        connection: &mut MySqlConnection,
        settle: &Settle<'_>,
        batch: &SettleBatch<'_>,
    ) -> sqlx::Result<SettledRows> {
        let query = self.sql().query::<MySql>(GENERAL).bind(now(settle.now)).bind(batch.mark);
        let query = query.bind(batch.json()).bind(settle.owner.as_str());
        let found = query.execute(&mut *connection).await?.rows_affected();
        let all = found == batch.seqs.len() as u64;
        let mut changed = SettledRows::new();
        for (seqs, _) in batch.chunks() {
            changed.extend(self.read_settled(connection, seqs, batch.mark, all).await?);
        }
        Ok(changed)
    }

    /// Settles all rows, and then deletes or archives those that are DONE.
    async fn settle_and_move(
        &self,
        connection: &mut MySqlConnection,
        settle: &Settle<'_>,
        batch: &SettleBatch<'_>,
    ) -> sqlx::Result<SettledRows> {
        let changed = self.settle_general(connection, settle, batch).await?;
        let rows = changed.iter().map(|(seq, row)| (*seq, *row));
        move_done::<MySql>(self.sql(), connection, settle, rows).await?;
        Ok(changed)
    }

    /// Reads the rows that this call has settled: those with its mark, or all of these rows if `all` is true.
    async fn read_settled(
        &self,
        connection: &mut MySqlConnection,
        seqs: &[i64],
        mark: i64,
        all: bool,
    ) -> sqlx::Result<Vec<(i64, SettledRow)>> {
        let query = bind_all(self.sql().listed(SETTLED, placeholder_count(seqs.len())).bind(mark), seqs);
        let mut settled = Vec::with_capacity(seqs.len());
        for row in &query.fetch_all(connection).await? {
            let (status, attempts): (i8, i32) = (row.try_get(1)?, row.try_get(2)?);
            let is_mine = row.try_get::<i64, _>(3)? != 0;
            // If another call has settled the row again, this call must have made it a retry.
            let status = if is_mine { status.into() } else { Status::Retry.code() };
            if all || is_mine {
                settled.push((row.try_get(0)?, SettledRow::new(status.into(), attempts.into())));
            }
        }
        Ok(settled)
    }
}

/// The changed rows by `seq`.
type SettledRows = HashMap<i64, SettledRow>;

/// Settlements as the statements take them, in the order of `seq`: all transactions change rows in this order, so that
/// two of them cannot deadlock.
struct SettleBatch<'a> {
    /// Marks the rows that this call settles. The same for all tries of the call.
    mark: i64,
    seqs: Vec<i64>,
    ids: Vec<&'a str>,
    settlements: Vec<&'a Settlement>,
}

impl<'a> SettleBatch<'a> {
    fn new(settlements: &'a [Settlement]) -> Self {
        let mut sorted: Vec<&Settlement> = settlements.iter().collect();
        sorted.sort_unstable_by_key(|settlement| settlement.lease.seq);
        Self {
            mark: fastrand::i64(1..),
            seqs: sorted.iter().map(|settlement| settlement.lease.seq).collect(),
            ids: sorted.iter().map(|settlement| settlement.lease.id.as_str()).collect(),
            settlements: sorted,
        }
    }

    fn json(&self) -> String {
        json(&self.settlements.iter().map(|settlement| entry(settlement)).collect::<Vec<_>>())
    }

    fn chunks(&self) -> impl Iterator<Item = (&[i64], &[&'a str])> {
        self.seqs.chunks(MAX_KEYS).zip(self.ids.chunks(MAX_KEYS))
    }
}

fn entry(settlement: &Settlement) -> impl serde::Serialize + '_ {
    let parts = VerdictParts::of(&settlement.verdict);
    let names = (!settlement.delivered.is_empty()).then(|| json(&settlement.delivered));
    let lease = &settlement.lease;
    (
        lease.seq,
        lease.id.as_str(),
        lease.token.as_i64(),
        parts.verdict,
        parts.error,
        parts.delay.map(delay),
        parts.park,
        parts.backoff.map(|backoff| backoff.max_attempts),
        parts.backoff.map(delays),
        names,
        parts.give_up_after.map(delay),
    )
}

/// The delays after the first, second, … attempt, as a list for SUBSTRING_INDEX, which returns the last element for a
/// position beyond the end of the list.
fn delays(backoff: &Backoff) -> String {
    let delays: Vec<String> = backoff.delays.iter().map(|after| delay(*after).to_string()).collect();
    if delays.is_empty() { "0".to_owned() } else { delays.join(",") }
}
