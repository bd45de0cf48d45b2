//! How much there is: counted as long as that is quick, and then estimated.

use std::collections::BTreeSet;

use posthaste::admin::Stats;
use sqlx::{PgConnection, Postgres, Row as _};

use super::store::read_oldest_pending;
use crate::row_estimate::{self, Estimate, SampledRows, Span, at_least_counted, count, is_too_many, span};
use crate::sql::Sql;

/// Whatever the planner believes about the table, rows are read in the order of an index, so that a
/// limit ends the reading. It lasts as long as the transaction.
const IN_ORDER: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
    SET LOCAL enable_sort = off; SET LOCAL jit = off";

/// Up to one row more than [`Stats::MAX_EXACT_COUNT`] of each kind.
pub(super) const BOUNDED: &str = r#"SELECT
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 100001) AS pending),
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status = 1
    ORDER BY coalesce(done_at, inserted_at) LIMIT 100001) AS done),
  (SELECT count(*) FROM (SELECT FROM "{table}" WHERE status = 3 ORDER BY seq LIMIT 100001) AS dead),
  (SELECT count(*) FROM (SELECT FROM "{table}_archive" LIMIT 100001) AS archived)"#;

const PAUSED: &str = r#"SELECT route FROM "{table}_control""#;

macro_rules! states {
    () => {
        "count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 2),
  count(*) FILTER (WHERE available_at <= statement_timestamp()),
  count(*) FILTER (WHERE available_at > statement_timestamp() AND locked_by IS NOT NULL),
  count(*) FILTER (WHERE available_at > statement_timestamp() AND locked_by IS NULL AND parked IS NOT NULL),
  count(*) FILTER (WHERE available_at > statement_timestamp() AND locked_by IS NULL AND parked IS NULL)"
    };
}

const PENDING: &str = concat!("SELECT ", states!(), r#" FROM "{table}" WHERE status IN (0, 2)"#);

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

const PENDING_ROWS: SampledRows =
    SampledRows { span: span!(r#""{table}" WHERE status IN (0, 2)"#), sample: SAMPLE_OF_PENDING };
const DEAD_ROWS: SampledRows =
    SampledRows { span: span!(r#""{table}" WHERE status = 3"#), sample: sample!("", "status = 3") };
const ALL_ROWS: SampledRows = SampledRows { span: span!(r#""{table}""#), sample: sample!("", "true") };

/// The archive may have a partition for every day of years, and a look at a place would ask all of them. They
/// are written once, so what the server wrote down about them holds; of the pages that came since then it is
/// assumed that they are as full as they get.
const ARCHIVED: &str = r#"SELECT coalesce(sum(
  greatest(c.reltuples, 0) + 300 * greatest(pg_relation_size(c.oid) / current_setting('block_size')::int8
    - greatest(c.relpages, 1), 0)), 0)::int8
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass('"{schema}"."{name}_archive_seq"')"#;

/// Readies a transaction for statements that end at their limit.
pub(super) async fn read_in_order(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(IN_ORDER).execute(connection).await.map(|_| ())
}

pub(super) async fn read(sql: &Sql, connection: &mut PgConnection) -> Result<Stats, sqlx::Error> {
    read_in_order(connection).await?;
    let bounded = sql.fresh::<Postgres>(BOUNDED).fetch_one(&mut *connection).await?;
    let mut stats = read_pending(sql, connection, count(&bounded, 0)?).await?;
    (stats.done, stats.dead, stats.archived) =
        (count(&bounded, 1)?, count(&bounded, 2)?, count(&bounded, 3)?);
    estimate_ended(sql, connection, &mut stats).await?;
    stats.oldest_pending = read_oldest_pending(sql, connection, None).await?;
    let paused = sql.query::<Postgres>(PAUSED).fetch_all(connection).await?;
    stats.paused = paused.iter().map(|row| row.try_get(0)).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(stats)
}

async fn read_pending(sql: &Sql, connection: &mut PgConnection, counted: u64) -> Result<Stats, sqlx::Error> {
    if !is_too_many(counted) {
        let row = sql.fresh::<Postgres>(PENDING).fetch_one(connection).await?;
        return row_estimate::read_pending(&row);
    }
    Ok(estimate(sql, connection, &PENDING_ROWS).await?.pending())
}

/// Replaces what was too much to count. What is DONE has no index by `seq`: it is all but the others.
async fn estimate_ended(
    sql: &Sql,
    connection: &mut PgConnection,
    stats: &mut Stats,
) -> Result<(), sqlx::Error> {
    if is_too_many(stats.dead) {
        stats.dead = at_least_counted(estimate(sql, connection, &DEAD_ROWS).await?.rows);
        stats.estimated.dead = true;
    }
    if is_too_many(stats.done) {
        let all = estimate(sql, connection, &ALL_ROWS).await?.rows;
        stats.done = at_least_counted(all.saturating_sub(stats.new + stats.retry + stats.dead));
        stats.estimated.done = true;
    }
    if is_too_many(stats.archived) {
        let archived = sql.fresh::<Postgres>(ARCHIVED).fetch_one(connection).await?;
        stats.archived = at_least_counted(count(&archived, 0)?);
        stats.estimated.archived = true;
    }
    Ok(())
}

/// How many rows of a kind there seem to be, and in which states.
async fn estimate(
    sql: &Sql,
    connection: &mut PgConnection,
    kind: &SampledRows,
) -> Result<Estimate, sqlx::Error> {
    let row = sql.fresh::<Postgres>(kind.span).fetch_one(&mut *connection).await?;
    let Some(span) = Span::read(&row)? else { return Ok(Estimate::default()) };
    let rows =
        sql.at_positions::<Postgres>(kind.sample, &span.sample_positions()).fetch_all(connection).await?;
    span.read_estimate(&rows)
}

#[cfg(test)]
mod tests {
    use posthaste::admin::{Admin as _, BacklogBy, Estimated};

    use super::super::plan_tests::{run, store};

    /// One in ten is a retry, and one in five waits for tomorrow.
    const ROWS: &str = r#"INSERT INTO "{table}" (event_id, event_type, payload, status, available_at)
SELECT 'event' || n, 'Tested', '{}', CASE WHEN n % 10 = 0 THEN 2 ELSE 0 END,
  now() + CASE WHEN n % 5 = 0 THEN interval '1 day' ELSE '0' END
FROM generate_series({first}, {last}) AS n"#;

    fn rows(first: u32, last: u32) -> String {
        ROWS.replace("{first}", &first.to_string()).replace("{last}", &last.to_string())
    }

    fn is_about(count: u64, real: u64) -> bool {
        count.abs_diff(real) * 20 <= real
    }

    #[tokio::test]
    #[ignore = "needs PostgreSQL: cargo xtask test"]
    async fn counts_are_exact_up_to_the_limit_and_estimates_beyond_it() {
        let store = store("estimates").await;
        let change = async |text: &str| {
            let changed = store.connections().engine(async |connection| {
                run(connection, store.sql(), text).await;
                Ok(())
            });
            changed.await.expect("a connection");
            store.stats().await.expect("stats work")
        };
        let stats = change(&rows(1, 100_000)).await;
        assert_eq!((stats.new, stats.retry, stats.due, stats.scheduled), (90_000, 10_000, 80_000, 20_000));
        assert_eq!(stats.estimated, Estimated::default());
        assert!(!store.backlog(BacklogBy::Type, 10).await.expect("backlog works").complete, "the oldest");

        let stats = change(&rows(100_001, 150_000)).await;
        assert_eq!(stats.estimated, Estimated { pending: true, ..Estimated::default() });
        assert!(is_about(stats.new, 135_000) && is_about(stats.retry, 15_000), "{stats:?}");
        assert!(is_about(stats.due, 120_000) && is_about(stats.scheduled, 30_000), "{stats:?}");
        let backlog = store.backlog(BacklogBy::Type, 10).await.expect("backlog works");
        assert_eq!((backlog.groups[0].count, backlog.complete), (20_000, false));

        let ended =
            r#"UPDATE "{table}" SET status = CASE WHEN seq % 5 = 0 THEN 0 ELSE 1 END, done_at = now()"#;
        let stats = change(ended).await;
        assert_eq!((stats.new, stats.retry), (30_000, 0));
        assert_eq!(stats.estimated, Estimated { done: true, ..Estimated::default() });
        assert!(is_about(stats.done, 120_000), "{stats:?}");

        let stats = change(r#"UPDATE "{table}" SET status = 3"#).await;
        assert_eq!((stats.new, stats.done), (0, 0));
        assert_eq!(stats.estimated, Estimated { dead: true, ..Estimated::default() });
        assert!(is_about(stats.dead, 150_000), "{stats:?}");

        let columns = "seq, event_id, event_type, payload, status, attempts, deferrals, lost_leases, replays, \
            available_at, created_at, inserted_at, lease_token";
        let archive =
            format!(r#"INSERT INTO "{{table}}_archive" ({columns}) SELECT {columns} FROM "{{table}}""#);
        let stats = change(&archive).await;
        assert!(stats.estimated.archived && stats.archived.abs_diff(150_000) < 30_000, "{stats:?}");
        let dropped = store.connections().engine(async |connection| {
            run(connection, store.sql(), r#"DROP SCHEMA "{schema}" CASCADE"#).await;
            Ok(())
        });
        dropped.await.expect("a connection");
    }
}
