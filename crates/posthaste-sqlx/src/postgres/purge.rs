//! Old rows leave, some of them to the archive.

use std::time::{Duration, Instant};

use posthaste::StoreError;
use posthaste::store::{Purge, Purgeable};
use sqlx::{PgConnection, Postgres};

use super::PgStore;
use super::value::{interval, now};
use crate::sql::Sql;

pub(super) const OLD_DONE: &str = r#"ARRAY(SELECT seq FROM "{table}"
WHERE status = 1 AND coalesce(done_at, inserted_at) <= coalesce($1, statement_timestamp()) - $2
ORDER BY coalesce(done_at, inserted_at) LIMIT {limit} FOR UPDATE SKIP LOCKED)"#;

pub(super) const OLD_DEAD: &str = r#"ARRAY(SELECT seq FROM "{table}"
WHERE status = 3 AND coalesce(done_at, inserted_at) <= coalesce($1, statement_timestamp()) - $2
ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED)"#;

/// The oldest rows by insertion, as far as they are old enough. Nobody looks behind them: most of the
/// table is younger.
pub(super) const OLD: &str = r#"ARRAY(SELECT seq FROM (
  SELECT seq, inserted_at FROM "{table}" ORDER BY seq LIMIT {limit} FOR UPDATE SKIP LOCKED) AS oldest
WHERE inserted_at <= coalesce($1, statement_timestamp()) - $2)"#;

const BY_SEQ: &str = "$1";

const DELETE: &str = r#"DELETE FROM "{table}" WHERE seq = ANY ("#;
const END: &str = ")";

macro_rules! kept {
    () => {
        "event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, schema_version, \
         payload, payload_bytes, headers, attempts, deferrals, lost_leases, replays, parked, progress, \
         available_at, created_at, inserted_at, done_at, last_error, locked_by, locked_at, lease_token"
    };
}

const ARCHIVE: &str = r#"WITH gone AS (DELETE FROM "{table}" WHERE seq = ANY ("#;
const ARCHIVE_END: &str = concat!(
    r#") RETURNING *) INSERT INTO "{table}_archive" (seq, status, "#,
    kept!(),
    ") SELECT seq, 4, ",
    kept!(),
    " FROM gone"
);

/// Today's partition and tomorrow's, by the store's clock.
const DAYS: &str = r#"SELECT "{table}_archive_day"((statement_timestamp() AT TIME ZONE 'UTC')::date + day)
FROM unnest(ARRAY[0, 1]) AS day"#;

const DROP_DAYS: &str = r#"SELECT "{table}_archive_drop"(coalesce($1, statement_timestamp()) - $2)"#;

/// How often to see that there are partitions for today and tomorrow.
const DAYS_GOOD_FOR: Duration = Duration::from_secs(3600);

impl PgStore {
    pub(super) async fn purge_rows(&self, purge: &Purge) -> Result<u64, StoreError> {
        if purge.archive {
            self.prepare_archive().await?;
        }
        self.connections().engine(async |connection| purge_in(self.sql(), connection, purge).await).await
    }

    /// Sees that what is archived today and tomorrow has a partition of its day. Without the right to
    /// make one, the archive's last partition takes everything.
    pub(super) async fn prepare_archive(&self) -> Result<(), StoreError> {
        let is_good = |since: &Instant| since.elapsed() < DAYS_GOOD_FOR;
        if self.archive_days().as_ref().is_some_and(is_good) {
            return Ok(());
        }
        let work = async |connection: &mut PgConnection| {
            self.sql().query::<Postgres>(DAYS).execute(connection).await
        };
        if let Err(error) = self.connections().engine(work).await {
            tracing::warn!(
                table = %self.sql().table(), %error,
                "no partition for today's archive could be made, so what is archived goes into the default \
                 partition; may this user EXECUTE the function {}_archive_day?", self.sql().table()
            );
        }
        *self.archive_days() = Some(Instant::now());
        Ok(())
    }
}

/// Purges on a connection that is in a transaction already, or in one statement.
pub(super) async fn purge_in(
    sql: &Sql,
    connection: &mut PgConnection,
    purge: &Purge,
) -> Result<u64, sqlx::Error> {
    let old = match purge.what {
        Purgeable::Archived => return drop_days(sql, connection, purge).await,
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

async fn drop_days(sql: &Sql, connection: &mut PgConnection, purge: &Purge) -> Result<u64, sqlx::Error> {
    let query = sql.scalar::<Postgres, i64>(DROP_DAYS).bind(now(purge.now));
    let gone = query.bind(interval(purge.older_than)).fetch_one(connection).await?;
    Ok(gone.unsigned_abs())
}

pub(super) async fn delete(
    sql: &Sql,
    connection: &mut PgConnection,
    seqs: &[i64],
) -> Result<(), sqlx::Error> {
    let query = sql.query_of::<Postgres>(&[DELETE, BY_SEQ, END]);
    query.bind(seqs).execute(connection).await?;
    Ok(())
}

pub(super) async fn archive(
    sql: &Sql,
    connection: &mut PgConnection,
    seqs: &[i64],
) -> Result<(), sqlx::Error> {
    let query = sql.query_of::<Postgres>(&[ARCHIVE, BY_SEQ, ARCHIVE_END]);
    query.bind(seqs).execute(connection).await?;
    Ok(())
}
