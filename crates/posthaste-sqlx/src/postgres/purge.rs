//! Purges on PostgreSQL.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use posthaste::store::{Purge, Purgeable};
use posthaste::{StoreError, Timestamp};
use sqlx::{PgConnection, Postgres};

use super::PgStore;
use super::value::{interval, limit, now};
use crate::sql::Sql;
use crate::store::purge::PurgeDialect;

/// The `seq`s of old rows, in the order of an index. As an array they are found once; see the statements of claims.
/// Rows that another transaction has locked are left for the next purge.
pub(super) const OLD_DONE: &str = r#"ARRAY(SELECT seq FROM "{table}"
WHERE status = 1 AND coalesce(done_at, inserted_at) <= coalesce($1, statement_timestamp()) - $2
ORDER BY coalesce(done_at, inserted_at) LIMIT {limit} FOR UPDATE SKIP LOCKED)"#;

pub(super) const OLD_DEAD: &str = r#"ARRAY(SELECT seq FROM "{table}"
WHERE status = 3 AND coalesce(done_at, inserted_at) <= coalesce($1, statement_timestamp()) - $2
ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED)"#;

/// Looks only at the oldest rows by insertion, because most of the table is younger.
pub(super) const OLD: &str = r#"ARRAY(SELECT seq FROM (
  SELECT seq, inserted_at FROM "{table}" ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED) AS oldest
WHERE inserted_at <= coalesce($1, statement_timestamp()) - $2)"#;

const DELETE: &str = r#"DELETE FROM "{table}" WHERE seq = ANY ("#;
const END: &str = ")";

macro_rules! archive_columns {
    () => {
        "event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, schema_version, \
         payload, payload_bytes, headers, attempts, deferrals, lost_leases, replays, parked, progress, \
         available_at, created_at, inserted_at, done_at, last_error, locked_by, locked_at, lease_until, lease_token"
    };
}

/// Deletes and archives in one statement, so that an event is in exactly one of the two tables.
const ARCHIVE: &str = r#"WITH gone AS (DELETE FROM "{table}" WHERE seq = ANY ("#;
const ARCHIVE_END: &str = concat!(
    r#") RETURNING *) INSERT INTO "{table}_archive" (seq, status, archived_at, "#,
    archive_columns!(),
    ") SELECT seq, 4, coalesce($1, statement_timestamp()), ",
    archive_columns!(),
    " FROM gone"
);

/// Creates the partition for the day that is this many days away, by the clock of the server.
const DAY: &str = r#"SELECT "{table}_archive_day"((statement_timestamp() AT TIME ZONE 'UTC')::date + $1)"#;

/// Partitions are created for this many days ahead, so that there is time to remove whatever prevents one.
const PARTITION_DAYS_AHEAD: i32 = 7;

const DROP_DAYS: &str = r#"SELECT "{table}_archive_drop"(coalesce($1, statement_timestamp()) - $2, $3)"#;

/// The intervals of checks for future partitions: after a successful check, and after a failed one.
const PARTITION_CHECK_INTERVAL: Duration = Duration::from_secs(3600);
const PARTITION_RETRY_INTERVAL: Duration = Duration::from_secs(300);

impl PurgeDialect for Postgres {
    async fn purge(store: &PgStore, purge: &Purge) -> Result<u64, StoreError> {
        if purge.archive {
            Self::prepare_archive(store).await;
        }
        let work = async |connection: &mut PgConnection| Self::purge_in(store.sql(), connection, purge).await;
        store.connections().engine(work).await
    }

    async fn purge_in(sql: &Sql, connection: &mut PgConnection, purge: &Purge) -> sqlx::Result<u64> {
        let old = match purge.what {
            Purgeable::Archived => return drop_partitions(sql, connection, purge).await,
            Purgeable::Done => OLD_DONE,
            Purgeable::Dead => OLD_DEAD,
            Purgeable::Any => OLD,
        };
        let parts = match purge.archive {
            true => [ARCHIVE, old, ARCHIVE_END],
            false => [DELETE, old, END],
        };
        let query = sql.limited::<Postgres>(&parts, purge.limit).persistent(false).bind(now(purge.now));
        Ok(query.bind(interval(purge.older_than)).execute(connection).await?.rows_affected())
    }

    async fn delete(sql: &Sql, connection: &mut PgConnection, seqs: &[i64]) -> sqlx::Result<()> {
        let query = sql.query_of::<Postgres>(&[DELETE, "$1", END]);
        query.bind(seqs).execute(connection).await?;
        Ok(())
    }

    async fn archive(
        sql: &Sql,
        connection: &mut PgConnection,
        seqs: &[i64],
        at: Option<Timestamp>,
    ) -> sqlx::Result<()> {
        let query = sql.query_of::<Postgres>(&[ARCHIVE, "$2", ARCHIVE_END]);
        query.bind(now(at)).bind(seqs).execute(connection).await?;
        Ok(())
    }

    /// Makes sure that partitions of the archive exist for today and the next days. A task does that at intervals, so
    /// that archiving never waits for a lock on the archive. A row without a partition goes into the default one.
    ///
    /// Only the first call waits, for the partition of today: while the default partition contains rows of a day, that
    /// day gets no partition, and while the default partition is large, no partition is created at all.
    async fn prepare_archive(store: &PgStore) {
        store.0.state.todays_partition.get_or_init(|| store.create_partitions(0..=0)).await;
        let mut next_check = store.next_partition_check();
        if next_check.is_some_and(|at| Instant::now() < at) {
            return;
        }
        *next_check = Some(Instant::now() + PARTITION_CHECK_INTERVAL);
        let store = store.clone();
        tokio::spawn(async move { store.create_partitions(1..=PARTITION_DAYS_AHEAD).await });
    }
}

impl PgStore {
    async fn create_partitions(&self, days: RangeInclusive<i32>) {
        for day in days {
            let work = async |connection: &mut PgConnection| {
                self.sql().query::<Postgres>(DAY).bind(day).execute(connection).await
            };
            let Err(error) = self.connections().engine(work).await else { continue };
            if self.connections().is_closed() {
                return;
            }
            tracing::warn!(
                table = %self.sql().table(), %error,
                "the archive partition for the day in {day} days could not be created, and it is tried \
                 again in five minutes: events archived on a day without a partition go into the default \
                 one; check that this user may EXECUTE the function {}_archive_day", self.sql().table()
            );
            *self.next_partition_check() = Some(Instant::now() + PARTITION_RETRY_INTERVAL);
            return;
        }
    }
}

async fn drop_partitions(sql: &Sql, connection: &mut PgConnection, purge: &Purge) -> sqlx::Result<u64> {
    let query = sql.scalar::<Postgres, i64>(DROP_DAYS).bind(now(purge.now));
    let query = query.bind(interval(purge.older_than)).bind(limit(purge.limit));
    let gone = query.fetch_one(connection).await?;
    Ok(gone.unsigned_abs())
}
