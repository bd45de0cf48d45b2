//! The SQL of MySQL for statistics.

use std::time::Duration;

use posthaste::{StoreError, Timestamp};
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::value::{self, clock};
use crate::row_estimate::{SampledRows, span};
use crate::sql::Sql;
use crate::store::stats::{DoneRows, StatsDialect, estimate};

macro_rules! bounded {
    ($phase:literal) => {
        concat!(
            "(SELECT COUNT(*) FROM (SELECT seq FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = ",
            $phase,
            " LIMIT 100001) AS p",
            $phase,
            ")"
        )
    };
}

macro_rules! states {
    () => {
        "CAST(COALESCE(SUM(status = 0), 0) AS SIGNED), CAST(COALESCE(SUM(status = 2), 0) AS SIGNED),
  CAST(COALESCE(SUM(available_at <= now AND COALESCE(lease_until <= now, 1)), 0) AS SIGNED),
  CAST(COALESCE(SUM(lease_until > now), 0) AS SIGNED),
  CAST(COALESCE(SUM(available_at > now AND COALESCE(lease_until <= now, 1) AND parked IS NOT NULL), 0) AS SIGNED),
  CAST(COALESCE(SUM(available_at > now AND COALESCE(lease_until <= now, 1) AND parked IS NULL), 0) AS SIGNED)"
    };
}

macro_rules! sample {
    ($states:expr, $columns:literal, $from:literal) => {
        concat!(
            "SELECT {place}, COUNT(*), COALESCE(MAX(seq), 0)",
            $states,
            " FROM (SELECT ",
            $columns,
            " FROM ",
            $from,
            " seq >= {place} ORDER BY seq LIMIT {rows}) AS here"
        )
    };
}

pub(super) const SAMPLE_OF_PENDING: &str = sample!(
    concat!(", ", states!()),
    "seq, status, available_at, lease_until, parked, UTC_TIMESTAMP(6) AS now",
    "`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0 AND"
);
pub(super) const SAMPLE_OF_DONE: &str =
    sample!("", "seq", "`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 1 AND");

const DONE_ROWS: SampledRows = SampledRows {
    span: span!("`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 1"),
    sample: SAMPLE_OF_DONE,
};
const ARCHIVED_ROWS: SampledRows =
    SampledRows { span: span!("`{table}_archive`"), sample: sample!("", "seq", "`{table}_archive` WHERE") };

/// A row has been due at least once if it is due, leased or parked, or has any attempt or deferral. The columns are
/// listed because the server materialises the inner rows, and `SELECT *` would include the payloads.
pub(super) const OLDEST_PENDING: &str = concat!(
    "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(inserted_at), ",
    clock!(),
    ") FROM (SELECT inserted_at, available_at, locked_by, parked, last_error IS NOT NULL AS has_error, attempts,
    deferrals, lost_leases
  FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0 ORDER BY seq LIMIT 1000) AS oldest
WHERE available_at <= ",
    clock!(),
    " OR locked_by IS NOT NULL OR parked IS NOT NULL OR has_error OR attempts <> 0
   OR deferrals <> 0 OR lost_leases <> 0"
);

impl StatsDialect for MySql {
    /// Each count ends at one more than [`Stats::MAX_EXACT_COUNT`].
    const BOUNDED: &'static str = concat!(
        "SELECT ",
        bounded!(0),
        ", ",
        bounded!(1),
        ", ",
        bounded!(3),
        ", (SELECT COUNT(*) FROM (SELECT seq FROM `{table}_archive` LIMIT 100001) AS archived)"
    );
    const PENDING: &'static str = concat!(
        "SELECT ",
        states!(),
        " FROM (SELECT UTC_TIMESTAMP(6) AS now) AS c STRAIGHT_JOIN `{table}` WHERE phase = 0"
    );
    const PAUSED: &'static str = "SELECT route FROM `{table}_control`";
    const PENDING_ROWS: SampledRows = SampledRows {
        span: span!("`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0"),
        sample: SAMPLE_OF_PENDING,
    };
    const DEAD_ROWS: SampledRows = SampledRows {
        span: span!("`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 3"),
        sample: sample!("", "seq", "`{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 3 AND"),
    };
    const DONE_ROWS: DoneRows = DoneRows::Indexed(DONE_ROWS);

    async fn estimate_archived(sql: &Sql, connection: &mut MySqlConnection) -> sqlx::Result<u64> {
        Ok(estimate::<Self>(sql, connection, &ARCHIVED_ROWS).await?.rows)
    }

    async fn read_oldest_pending(
        sql: &Sql,
        connection: &mut MySqlConnection,
        now: Option<Timestamp>,
    ) -> sqlx::Result<Option<Duration>> {
        let query = sql.query::<MySql>(OLDEST_PENDING).bind(value::now(now)).bind(value::now(now));
        let age: Option<i64> = query.fetch_one(connection).await?.try_get(0)?;
        Ok(age.map(|age| Duration::from_micros(age.try_into().unwrap_or(0))))
    }

    async fn oldest_pending(
        store: &MySqlStore,
        now: Option<Timestamp>,
    ) -> Result<Option<Duration>, StoreError> {
        let read = async |connection: &mut MySqlConnection| {
            Self::read_oldest_pending(store.sql(), connection, now).await
        };
        store.connections().engine(read).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan_tests::{open, run};
    use crate::store::stats::tests::{
        Script, counts_are_exact_up_to_the_limit_and_estimates_beyond_it as check,
    };

    #[tokio::test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    async fn counts_are_exact_up_to_the_limit_and_estimates_beyond_it() {
        let (store, mut connection, database) = open("estimates").await;
        let script = Script {
            rows: "INSERT INTO `{table}` (event_id, event_type, payload, status, available_at)
SELECT CONCAT('event', n), 'Tested', '{}', IF(n % 10 = 0, 2, 0),
  UTC_TIMESTAMP(6) + INTERVAL IF(n % 5 = 0, 1, 0) DAY
FROM (WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 399)
  SELECT 1 + a.i * 400 + b.i AS n FROM d AS a, d AS b) AS numbers WHERE n BETWEEN {first} AND {last}",
            done: "UPDATE `{table}` SET status = IF(seq % 5 = 0, 0, 1), done_at = UTC_TIMESTAMP(6)",
            dead: "UPDATE `{table}` SET status = 3",
            archive: "INSERT INTO `{table}_archive` ({columns}) SELECT {columns} FROM `{table}`",
            archive_error: 7_500,
        };
        check(&store, script).await;
        run(&mut connection, store.sql(), &format!("DROP DATABASE {database}")).await;
    }
}
