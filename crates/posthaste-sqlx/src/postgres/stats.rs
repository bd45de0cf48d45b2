//! The SQL of PostgreSQL for statistics.

use std::time::Duration;

use posthaste::{StoreError, Timestamp};
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::value::{self, Time};
use crate::queries::SqlQuery;
use crate::row::ReadValues as _;
use crate::row_estimate::{SampledRows, span};
use crate::sql::Sql;
use crate::store::stats::{DoneRows, StatsDialect};

/// Makes the planner read rows in the order of an index, whatever it knows about the table, so that a LIMIT ends the
/// reading. Lasts until the end of the transaction.
const IN_ORDER: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
    SET LOCAL enable_sort = off; SET LOCAL jit = off";

macro_rules! states {
    () => {
        "count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 2),
  count(*) FILTER (WHERE greatest(available_at, lease_until) <= statement_timestamp()),
  count(*) FILTER (WHERE lease_until > statement_timestamp()),
  count(*) FILTER (WHERE available_at > statement_timestamp() AND (lease_until > statement_timestamp()) IS NOT TRUE
    AND parked IS NOT NULL),
  count(*) FILTER (WHERE available_at > statement_timestamp() AND (lease_until > statement_timestamp()) IS NOT TRUE
    AND parked IS NULL)"
    };
}

macro_rules! sample {
    ($states:expr, $condition:literal) => {
        concat!(
            "SELECT {place}::int8, count(*), coalesce(max(seq), 0)",
            $states,
            r#" FROM (SELECT * FROM "{table}" WHERE "#,
            $condition,
            " AND seq >= {place} ORDER BY seq LIMIT {rows}) AS here"
        )
    };
}

pub(super) const SAMPLE_OF_PENDING: &str = sample!(concat!(", ", states!()), "status IN (0, 2)");

const ALL_ROWS: SampledRows = SampledRows { span: span!(r#""{table}""#), sample: sample!("", "true") };

/// The archive may have a partition for every day of several years, and a sample at one position would search all of
/// them. Partitions are written once, so the statistics of the server are accurate. Pages that were added since are
/// assumed to be full.
const ARCHIVED: &str = r#"SELECT coalesce(sum(
  greatest(c.reltuples, 0) + 300 * greatest(pg_relation_size(c.oid) / current_setting('block_size')::int8
    - greatest(c.relpages, 1), 0)), 0)::int8
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass('"{schema}"."{name}_archive_seq"')"#;

/// A row has been due at least once if it is due, leased or parked, or has any attempt or deferral.
pub(super) const OLDEST_PENDING: &str = r#"SELECT coalesce($1, statement_timestamp()), min(inserted_at) FROM (
  SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 1000) AS oldest
WHERE available_at <= coalesce($1, statement_timestamp()) OR locked_by IS NOT NULL OR parked IS NOT NULL
   OR last_error IS NOT NULL OR attempts <> 0 OR deferrals <> 0 OR lost_leases <> 0"#;

impl StatsDialect for Postgres {
    /// Each count ends at one more than [`Stats::MAX_EXACT_COUNT`].
    const BOUNDED: &'static str = r#"SELECT
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 100001) AS pending),
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status = 1
    ORDER BY coalesce(done_at, inserted_at) LIMIT 100001) AS done),
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status = 3 ORDER BY seq LIMIT 100001) AS dead),
  (SELECT count(*) FROM (SELECT FROM "{table}_archive" LIMIT 100001) AS archived)"#;
    const PENDING: &'static str = concat!("SELECT ", states!(), r#" FROM "{table}" WHERE status IN (0, 2)"#);
    const PAUSED: &'static str = r#"SELECT route FROM "{table}_control""#;
    const PENDING_ROWS: SampledRows =
        SampledRows { span: span!(r#""{table}" WHERE status IN (0, 2)"#), sample: SAMPLE_OF_PENDING };
    const DEAD_ROWS: SampledRows =
        SampledRows { span: span!(r#""{table}" WHERE status = 3"#), sample: sample!("", "status = 3") };
    const DONE_ROWS: DoneRows = DoneRows::AmongAll(ALL_ROWS);

    async fn read_in_order(connection: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::raw_sql(IN_ORDER).execute(connection).await.map(|_| ())
    }

    fn fresh(sql: &Sql, statement: &'static str) -> SqlQuery<Self> {
        sql.fresh(statement)
    }

    /// The limit is part of the text, so that the planner knows it.
    fn limited(
        sql: &Sql,
        statement: &'static str,
        bind: impl FnOnce(SqlQuery<Self>) -> SqlQuery<Self>,
        limit: usize,
    ) -> SqlQuery<Self> {
        bind(sql.limited(&[statement], limit)).persistent(false)
    }

    async fn estimate_archived(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<u64> {
        sql.fresh::<Postgres>(ARCHIVED).fetch_one(connection).await?.count_at(0)
    }

    async fn read_oldest_pending(
        sql: &Sql,
        connection: &mut PgConnection,
        now: Option<Timestamp>,
    ) -> sqlx::Result<Option<Duration>> {
        let query = sql.fresh::<Postgres>(OLDEST_PENDING).bind(value::now(now));
        let row = query.fetch_one(connection).await?;
        let (now, oldest): (Time, Option<Time>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(oldest.map(|oldest| now.0.since(oldest.0)))
    }

    async fn oldest_pending(store: &PgStore, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        let read = async |connection: &mut PgConnection| {
            Self::read_oldest_pending(store.sql(), connection, now).await
        };
        store.connections().engine(read).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan_tests::{run, store};
    use crate::store::stats::tests::{
        Script, counts_are_exact_up_to_the_limit_and_estimates_beyond_it as check,
    };

    #[tokio::test]
    #[ignore = "needs PostgreSQL: cargo xtask test"]
    async fn counts_are_exact_up_to_the_limit_and_estimates_beyond_it() {
        let store = store("estimates").await;
        let script = Script {
            rows: r#"INSERT INTO "{table}" (event_id, event_type, payload, status, available_at)
SELECT 'event' || n, 'Tested', '{}', CASE WHEN n % 10 = 0 THEN 2 ELSE 0 END,
  now() + CASE WHEN n % 5 = 0 THEN interval '1 day' ELSE '0' END
FROM generate_series({first}, {last}) AS n"#,
            done: r#"UPDATE "{table}" SET status = CASE WHEN seq % 5 = 0 THEN 0 ELSE 1 END, done_at = now()"#,
            dead: r#"UPDATE "{table}" SET status = 3"#,
            archive: r#"INSERT INTO "{table}_archive" ({columns}) SELECT {columns} FROM "{table}" ORDER BY seq"#,
            archive_error: 29_999,
        };
        check(&store, script).await;
        let dropped = store.connections().engine(async |connection| {
            run(connection, store.sql(), r#"DROP SCHEMA "{schema}" CASCADE"#).await;
            Ok(())
        });
        dropped.await.expect("a connection");
    }
}
