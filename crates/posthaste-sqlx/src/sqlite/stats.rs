//! The SQL of SQLite for statistics.

use std::time::Duration;

use posthaste::{StoreError, Timestamp};
use sqlx::{Sqlite, SqliteConnection};

use super::SqliteStore;
use crate::queries::SqlQuery;
use crate::row_estimate::{SampledRows, span};
use crate::sql::Sql;
use crate::store::stats::{DoneRows, StatsDialect, estimate};

macro_rules! states {
    () => {
        "count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 2),
  count(*) FILTER (WHERE available_at <= ?1 AND coalesce(lease_until <= ?1, 1)),
  count(*) FILTER (WHERE lease_until > ?1),
  count(*) FILTER (WHERE available_at > ?1 AND coalesce(lease_until <= ?1, 1) AND parked IS NOT NULL),
  count(*) FILTER (WHERE available_at > ?1 AND coalesce(lease_until <= ?1, 1) AND parked IS NULL)"
    };
}

macro_rules! sample {
    ($states:expr, $columns:literal, $from:literal) => {
        concat!(
            "SELECT {place}, count(*), coalesce(max(seq), 0)",
            $states,
            " FROM (SELECT ",
            $columns,
            " FROM ",
            $from,
            " seq >= {place} ORDER BY seq LIMIT {rows})"
        )
    };
}

pub(super) const SAMPLE_OF_PENDING: &str = sample!(
    concat!(", ", states!()),
    "seq, status, available_at, lease_until, parked",
    r#""{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) AND"#
);
pub(super) const SAMPLE_OF_ALL: &str = sample!("", "seq", r#""{table}" WHERE"#);

const ALL_ROWS: SampledRows = SampledRows { span: span!(r#""{table}""#), sample: SAMPLE_OF_ALL };
const ARCHIVED_ROWS: SampledRows = SampledRows {
    span: span!(r#""{table}_archive""#),
    sample: sample!("", "seq", r#""{table}_archive" WHERE"#),
};

/// A row has been due at least once if it is due, leased or parked, or has any attempt or deferral. Times that another
/// program left unreadable are ignored.
pub(super) const OLDEST_PENDING: &str = r#"SELECT
  min(CASE WHEN typeof(inserted_at) IN ('integer', 'real') THEN CAST(inserted_at AS INTEGER) END) FROM (
  SELECT * FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 1000)
WHERE available_at <= ?1 OR locked_by IS NOT NULL OR parked IS NOT NULL OR last_error IS NOT NULL
   OR attempts <> 0 OR deferrals <> 0 OR lost_leases <> 0"#;

impl StatsDialect for Sqlite {
    /// Each count ends at one more than [`Stats::MAX_EXACT_COUNT`].
    const BOUNDED: &'static str = r#"SELECT
  (SELECT count(*) FROM (SELECT 1 FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) LIMIT 100001)),
  (SELECT count(*) FROM (SELECT 1 FROM "{table}" INDEXED BY "{table}_done" WHERE status = 1 LIMIT 100001)),
  (SELECT count(*) FROM (SELECT 1 FROM "{table}" INDEXED BY "{table}_dead" WHERE status = 3 LIMIT 100001)),
  (SELECT count(*) FROM (SELECT 1 FROM "{table}_archive" LIMIT 100001))"#;
    const PENDING: &'static str =
        concat!("SELECT ", states!(), r#" FROM "{table}" INDEXED BY "{table}_due" WHERE status IN (0, 2)"#);
    const PAUSED: &'static str = r#"SELECT route FROM "{table}_control""#;
    const PENDING_ROWS: SampledRows = SampledRows {
        span: span!(r#""{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2)"#),
        sample: SAMPLE_OF_PENDING,
    };
    const DEAD_ROWS: SampledRows = SampledRows {
        span: span!(r#""{table}" INDEXED BY "{table}_dead" WHERE status = 3"#),
        sample: sample!("", "seq", r#""{table}" INDEXED BY "{table}_dead" WHERE status = 3 AND"#),
    };
    const DONE_ROWS: DoneRows = DoneRows::AmongAll(ALL_ROWS);

    fn bind_clock(query: SqlQuery<Self>) -> SqlQuery<Self> {
        query.bind(Timestamp::now().as_micros())
    }

    async fn estimate_archived(sql: &Sql, connection: &mut SqliteConnection) -> sqlx::Result<u64> {
        Ok(estimate::<Self>(sql, connection, &ARCHIVED_ROWS).await?.rows)
    }

    async fn read_oldest_pending(
        sql: &Sql,
        connection: &mut SqliteConnection,
        now: Option<Timestamp>,
    ) -> sqlx::Result<Option<Duration>> {
        let now = now.unwrap_or_else(Timestamp::now);
        let query = sql.scalar::<_, Option<i64>>(OLDEST_PENDING).bind(now.as_micros());
        let oldest = query.fetch_one(connection).await?;
        Ok(oldest.map(|inserted_at| now.since(Timestamp::from_micros(inserted_at))))
    }

    async fn oldest_pending(
        store: &SqliteStore,
        now: Option<Timestamp>,
    ) -> Result<Option<Duration>, StoreError> {
        let read = async |connection: &mut SqliteConnection| {
            Self::read_oldest_pending(store.sql(), connection, now).await
        };
        store.read(read).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use crate::store::stats::tests::{
        Script, counts_are_exact_up_to_the_limit_and_estimates_beyond_it as check,
    };

    #[tokio::test]
    async fn counts_are_exact_up_to_the_limit_and_estimates_beyond_it() {
        let options = "sqlite::memory:".parse().expect("a good URL");
        let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
        let script = Script {
            rows: r#"
WITH RECURSIVE n (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM n WHERE n < {last})
INSERT INTO "{table}" (event_id, event_type, payload, status, available_at)
SELECT 'event' || n, 'Tested', '{}', iif(n % 10 = 0, 2, 0), iif(n % 5 = 0, 9000000000000000, 0) FROM n"#,
            done: r#"UPDATE "{table}" SET status = iif(seq % 5 = 0, 0, 1), done_at = 1"#,
            dead: r#"UPDATE "{table}" SET status = 3"#,
            archive: r#"INSERT INTO "{table}_archive" ({columns}) SELECT {columns} FROM "{table}""#,
            archive_error: 7_500,
        };
        check(&store, script).await;
    }
}
