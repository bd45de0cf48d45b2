//! Purges on SQLite.

use posthaste::store::{Purge, Purgeable};
use posthaste::{StoreError, Timestamp};
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::{SqliteStore, value};
use crate::sql::Sql;
use crate::store::purge::PurgeDialect;

pub(super) const OLD_DONE: &str = r#"SELECT seq FROM "{table}" INDEXED BY "{table}_done"
WHERE status = 1 AND coalesce(done_at, inserted_at) <= ?1
ORDER BY coalesce(done_at, inserted_at) LIMIT ?2"#;

pub(super) const OLD_DEAD: &str = r#"SELECT seq FROM "{table}" INDEXED BY "{table}_dead"
WHERE status = 3 AND coalesce(done_at, inserted_at) <= ?1
ORDER BY coalesce(done_at, inserted_at), seq LIMIT ?2"#;

/// Stops at the first row that is too young, because most of the table may be too young.
pub(super) const OLD: &str = r#"SELECT seq FROM "{table}"
WHERE seq < coalesce((SELECT seq FROM "{table}" WHERE inserted_at > ?1 ORDER BY seq LIMIT 1), 9223372036854775807)
ORDER BY seq LIMIT ?2"#;

pub(super) const DELETE: &str = r#"DELETE FROM "{table}" WHERE seq IN (SELECT value FROM jsonb_each(?1))"#;

macro_rules! archive_columns {
    () => {
        "event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, schema_version, \
         payload, headers, attempts, deferrals, lost_leases, replays, parked, progress, available_at, \
         created_at, inserted_at, done_at, last_error, locked_by, locked_at, lease_until, lease_token"
    };
}

/// REPLACE, because after a restore of the file an event may be in the archive already.
pub(super) const ARCHIVE: &str = concat!(
    r#"INSERT OR REPLACE INTO "{table}_archive" (seq, status, "#,
    archive_columns!(),
    ") SELECT seq, 4, ",
    archive_columns!(),
    r#" FROM "{table}" WHERE seq IN (SELECT value FROM jsonb_each(?1))"#
);

const FORGET: &str = r#"DELETE FROM "{table}_archive" WHERE seq IN (SELECT seq FROM "{table}_archive"
WHERE coalesce(done_at, inserted_at) <= ?1 ORDER BY seq LIMIT ?2)"#;

impl PurgeDialect for Sqlite {
    async fn purge(store: &SqliteStore, purge: &Purge) -> Result<u64, StoreError> {
        let work =
            async |connection: &mut SqliteConnection| Self::purge_in(store.sql(), connection, purge).await;
        store.connections().engine_in_transaction(work).await
    }

    async fn purge_in(sql: &Sql, connection: &mut SqliteConnection, purge: &Purge) -> sqlx::Result<u64> {
        let before = purge.now.unwrap_or_else(Timestamp::now) - purge.older_than;
        if purge.what == Purgeable::Archived {
            let query = sql.query(FORGET).bind(before.as_micros()).bind(value::limit(purge.limit));
            return Ok(query.execute(connection).await?.rows_affected());
        }
        let select = match purge.what {
            Purgeable::Done => OLD_DONE,
            Purgeable::Dead => OLD_DEAD,
            Purgeable::Any | Purgeable::Archived => OLD,
        };
        let query = sql.query(select).bind(before.as_micros());
        let query = query.bind(value::limit(purge.limit));
        let rows = query.fetch_all(&mut *connection).await?;
        let seqs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        match purge.archive {
            true => Self::archive(sql, connection, &seqs, purge.now).await?,
            false => Self::delete(sql, connection, &seqs).await?,
        }
        Ok(seqs.len() as u64)
    }

    async fn delete(sql: &Sql, connection: &mut SqliteConnection, seqs: &[i64]) -> sqlx::Result<()> {
        if !seqs.is_empty() {
            sql.query(DELETE).bind(value::seqs(seqs)).execute(connection).await?;
        }
        Ok(())
    }

    /// Archived rows of SQLite have no time of archiving.
    async fn archive(
        sql: &Sql,
        connection: &mut SqliteConnection,
        seqs: &[i64],
        _at: Option<Timestamp>,
    ) -> sqlx::Result<()> {
        if !seqs.is_empty() {
            sql.query(ARCHIVE).bind(value::seqs(seqs)).execute(&mut *connection).await?;
        }
        Self::delete(sql, connection, seqs).await
    }
}
