//! Purges on MySQL.

use posthaste::store::{Purge, Purgeable};
use posthaste::{StoreError, Timestamp};
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::adaptive_batch::RowSteps;
use super::value::{self, MAX_KEYS, MySqlQuery, bind_all, clock, delay, now, placeholder_count};
use crate::sql::Sql;
use crate::store::purge::PurgeDialect;

macro_rules! cutoff {
    () => {
        concat!(clock!(), " - INTERVAL ? MICROSECOND")
    };
}

/// Old rows in the order of the index. For rows that have ended, its column `phase_at` contains the time of the end.
pub(super) const OLD_DONE: &str = concat!(
    "SELECT seq FROM `{table}` FORCE INDEX (`{table}_due`) WHERE phase = 1 AND phase_at <= ",
    cutoff!(),
    " ORDER BY phase_at, seq LIMIT ?"
);

pub(super) const OLD_DEAD: &str = concat!(
    "SELECT seq FROM `{table}` FORCE INDEX (`{table}_due`) WHERE phase = 3 AND phase_at <= ",
    cutoff!(),
    " ORDER BY phase_at, seq LIMIT ?"
);

/// Looks only at the oldest rows by insertion, because most of the table is younger.
pub(super) const OLD: &str = concat!(
    "SELECT seq FROM `{table}` WHERE inserted_at <= ",
    cutoff!(),
    " AND seq <= (SELECT MAX(seq) FROM (SELECT seq FROM `{table}` ORDER BY seq LIMIT ?) AS oldest) ORDER BY seq"
);

/// A derived table finds the rows. A DELETE with ORDER BY and LIMIT takes no index hint, and MariaDB would choose an
/// index with which it has to sort all rows that are DONE.
pub(super) const DELETE: &str = "DELETE o FROM (";
pub(super) const DELETE_END: &str = ") AS old STRAIGHT_JOIN `{table}` AS o ON o.seq = old.seq";

const OLD_ARCHIVED: &str = concat!(
    "DELETE FROM `{table}_archive` WHERE archived_at <= ",
    cutoff!(),
    " ORDER BY archived_at LIMIT ?"
);

/// Only for archiving, where the rows must not change between the SELECT and the INSERT. Rows that another transaction
/// has locked are left for the next purge.
const LOCK: &str = " FOR UPDATE SKIP LOCKED";

const DELETE_KEYS: &str = "DELETE FROM `{table}` WHERE seq IN ({keys})";

macro_rules! archive_columns {
    () => {
        "event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, schema_version, \
         payload, payload_bytes, headers, attempts, deferrals, lost_leases, replays, parked, progress, \
         available_at, created_at, inserted_at, done_at, last_error, locked_by, locked_at, lease_until, lease_token"
    };
}

const ARCHIVE_KEYS: &str = concat!(
    "INSERT INTO `{table}_archive` (archived_at, seq, status, ",
    archive_columns!(),
    ") SELECT ",
    clock!(),
    ", seq, 4, ",
    archive_columns!(),
    " FROM `{table}` WHERE seq IN ({keys})"
);

impl PurgeDialect for MySql {
    async fn purge(store: &MySqlStore, purge: &Purge) -> Result<u64, StoreError> {
        let mut steps = RowSteps::new(purge.limit);
        while let Some(limit) = steps.next() {
            let mut step = purge.clone();
            step.limit = limit;
            steps.found(store.purge_step(&step).await?);
        }
        Ok(steps.total())
    }

    async fn purge_in(sql: &Sql, connection: &mut MySqlConnection, purge: &Purge) -> sqlx::Result<u64> {
        let bind = |query: MySqlQuery| {
            query.bind(now(purge.now)).bind(delay(purge.older_than)).bind(value::limit(purge.limit))
        };
        let old = match purge.what {
            Purgeable::Archived => {
                return Ok(bind(sql.query::<MySql>(OLD_ARCHIVED)).execute(connection).await?.rows_affected());
            }
            Purgeable::Done => OLD_DONE,
            Purgeable::Dead => OLD_DEAD,
            Purgeable::Any => OLD,
        };
        if !purge.archive {
            let query = bind(sql.query_of::<MySql>(&[DELETE, old, DELETE_END]));
            return Ok(query.execute(connection).await?.rows_affected());
        }
        let rows = bind(sql.query_of::<MySql>(&[old, LOCK])).fetch_all(&mut *connection).await?;
        let mut seqs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        seqs.sort_unstable();
        Self::archive(sql, connection, &seqs, purge.now).await?;
        Ok(seqs.len() as u64)
    }

    async fn delete(sql: &Sql, connection: &mut MySqlConnection, seqs: &[i64]) -> sqlx::Result<()> {
        for seqs in seqs.chunks(MAX_KEYS) {
            bind_all(sql.listed(DELETE_KEYS, placeholder_count(seqs.len())), seqs)
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    async fn archive(
        sql: &Sql,
        connection: &mut MySqlConnection,
        seqs: &[i64],
        at: Option<Timestamp>,
    ) -> sqlx::Result<()> {
        for seqs in seqs.chunks(MAX_KEYS) {
            let query = sql.listed(ARCHIVE_KEYS, placeholder_count(seqs.len())).bind(now(at));
            bind_all(query, seqs).execute(&mut *connection).await?;
        }
        Self::delete(sql, connection, seqs).await
    }
}

impl MySqlStore {
    async fn purge_step(&self, purge: &Purge) -> Result<u64, StoreError> {
        let work =
            async |connection: &mut MySqlConnection| MySql::purge_in(self.sql(), connection, purge).await;
        match purge.archive {
            true => self.connections().engine_in_transaction(work).await,
            false => self.connections().engine(work).await,
        }
    }
}
