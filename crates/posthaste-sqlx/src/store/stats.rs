//! Statistics of an outbox: exact counts up to a limit, estimates beyond it.

use std::time::Duration;

use posthaste::admin::Stats;
use posthaste::{StoreError, Timestamp};

use super::{SqlStore, StoreDialect};
use crate::queries::{Queries, SqlQuery};
use crate::row::ReadValues;
use crate::row_estimate::{self, Estimate, SampledRows, Span, at_least_counted, is_too_many};
use crate::sql::{self, Sql};

/// The SQL of one database for statistics.
pub(crate) trait StatsDialect: StoreDialect + Queries {
    /// The numbers of pending, done, dead and archived rows, each counted up to one more than
    /// [`Stats::MAX_EXACT_COUNT`].
    const BOUNDED: &'static str;
    /// The states of all pending rows.
    const PENDING: &'static str;
    /// The paused routes.
    const PAUSED: &'static str;
    const PENDING_ROWS: SampledRows;
    const DEAD_ROWS: SampledRows;
    const DONE_ROWS: DoneRows;

    /// Makes the planner use the order of indexes in this transaction, so that statements stop at their limit.
    fn read_in_order(_connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send {
        async { Ok(()) }
    }

    /// A statement that is planned for the table as it is now.
    fn fresh(sql: &Sql, statement: &'static str) -> SqlQuery<Self> {
        sql.query(statement)
    }

    /// Binds the current time, for a database without a clock of its own.
    fn bind_clock(query: SqlQuery<Self>) -> SqlQuery<Self> {
        query
    }

    /// A statement with a limit on its rows. The limit is the last bound value, or part of the text.
    fn limited(
        sql: &Sql,
        statement: &'static str,
        bind: impl FnOnce(SqlQuery<Self>) -> SqlQuery<Self>,
        limit: usize,
    ) -> SqlQuery<Self> {
        Self::bind_int(bind(sql.query(statement)), sql::limit(limit))
    }

    fn estimate_archived(
        sql: &Sql,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn read_oldest_pending(
        sql: &Sql,
        connection: &mut Self::Connection,
        now: Option<Timestamp>,
    ) -> impl Future<Output = sqlx::Result<Option<Duration>>> + Send;

    /// The age of the oldest pending event, for the engine.
    fn oldest_pending(
        store: &SqlStore<Self>,
        now: Option<Timestamp>,
    ) -> impl Future<Output = Result<Option<Duration>, StoreError>> + Send;
}

/// How rows that are done are sampled.
pub(crate) enum DoneRows {
    /// By an index of their own.
    #[cfg(feature = "mysql")]
    Indexed(SampledRows),
    /// Among all rows, because no index contains them in the order of `seq`: the result is the number of all rows minus
    /// the others.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    AmongAll(SampledRows),
}

pub(crate) async fn read_stats<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> sqlx::Result<Stats> {
    D::read_in_order(connection).await?;
    let bounded = D::fetch_one(D::fresh(sql, D::BOUNDED), connection).await?;
    let mut stats = read_pending::<D>(sql, connection, bounded.count_at(0)?).await?;
    (stats.done, stats.dead, stats.archived) =
        (bounded.count_at(1)?, bounded.count_at(2)?, bounded.count_at(3)?);
    estimate_ended::<D>(sql, connection, &mut stats).await?;
    stats.oldest_pending = D::read_oldest_pending(sql, connection, None).await?;
    let paused = D::fetch_all(sql.query(D::PAUSED), connection).await?;
    for row in &paused {
        stats.paused.extend(row.text_at(0)?);
    }
    Ok(stats)
}

async fn read_pending<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    counted: u64,
) -> sqlx::Result<Stats> {
    if is_too_many(counted) {
        return Ok(estimate::<D>(sql, connection, &D::PENDING_ROWS).await?.pending());
    }
    let query = D::bind_clock(D::fresh(sql, D::PENDING));
    row_estimate::read_pending(&D::fetch_one(query, connection).await?)
}

/// Replaces counts that reached their limit by estimates.
async fn estimate_ended<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    stats: &mut Stats,
) -> sqlx::Result<()> {
    if is_too_many(stats.dead) {
        stats.dead = at_least_counted(estimate::<D>(sql, connection, &D::DEAD_ROWS).await?.rows);
        stats.estimated.dead = true;
    }
    if is_too_many(stats.done) {
        let done = match D::DONE_ROWS {
            #[cfg(feature = "mysql")]
            DoneRows::Indexed(rows) => estimate::<D>(sql, connection, &rows).await?.rows,
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            DoneRows::AmongAll(rows) => {
                let all = estimate::<D>(sql, connection, &rows).await?.rows;
                all.saturating_sub(stats.new + stats.retry + stats.dead)
            }
        };
        stats.done = at_least_counted(done);
        stats.estimated.done = true;
    }
    if is_too_many(stats.archived) {
        stats.archived = at_least_counted(D::estimate_archived(sql, connection).await?);
        stats.estimated.archived = true;
    }
    Ok(())
}

/// Estimates how many rows of a kind there are, and in which states.
pub(crate) async fn estimate<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    rows: &SampledRows,
) -> sqlx::Result<Estimate> {
    let span = Span::read(&D::fetch_one(D::fresh(sql, rows.span), connection).await?)?;
    let Some(span) = span else { return Ok(Estimate::default()) };
    let samples = D::bind_clock(sql.at_positions(rows.sample, &span.sample_positions()));
    span.read_estimate(&D::fetch_all(samples, connection).await?)
}

#[cfg(test)]
pub(crate) mod tests {
    use posthaste::admin::{Admin as _, BacklogBy, Estimated, Stats};

    use crate::SqlStore;
    use crate::store::Dialect;
    use crate::store::admin::Access;

    /// The statements of one database that fill its table.
    pub(crate) struct Script {
        /// Inserts the rows from `{first}` to `{last}`: one in ten is a retry, and one in five is scheduled for
        /// tomorrow.
        pub(crate) rows: &'static str,
        /// Marks all rows but one in five as done; the others become new.
        pub(crate) done: &'static str,
        /// Marks all rows as dead.
        pub(crate) dead: &'static str,
        /// Copies `{columns}` of all rows into the archive.
        pub(crate) archive: &'static str,
        /// The largest allowed error of the archive's estimate, in rows.
        pub(crate) archive_error: u64,
    }

    const COLUMNS: &str = "seq, event_id, event_type, payload, status, attempts, deferrals, lost_leases, replays, \
        available_at, created_at, inserted_at, lease_token";

    fn is_about(count: u64, real: u64) -> bool {
        count.abs_diff(real) * 20 <= real
    }

    async fn change<D: Dialect>(store: &SqlStore<D>, text: &str) -> Stats {
        let changed = store.call(Access::Write, async |connection| {
            D::execute(store.sql().query_of(&[text]), connection).await.map(drop)
        });
        changed.await.expect("the rows change");
        store.stats().await.expect("stats work")
    }

    pub(crate) async fn counts_are_exact_up_to_the_limit_and_estimates_beyond_it<D: Dialect>(
        store: &SqlStore<D>,
        script: Script,
    ) {
        let stats = change(store, &script.rows.replace("{first}", "1").replace("{last}", "100000")).await;
        assert_eq!((stats.new, stats.retry, stats.due, stats.scheduled), (90_000, 10_000, 80_000, 20_000));
        assert_eq!(stats.estimated, Estimated::default());
        assert!(!store.backlog(BacklogBy::Type, 10).await.expect("backlog works").complete, "the oldest");

        let more = script.rows.replace("{first}", "100001").replace("{last}", "150000");
        let stats = change(store, &more).await;
        assert_eq!(stats.estimated, Estimated { pending: true, ..Estimated::default() });
        assert!(is_about(stats.new, 135_000) && is_about(stats.retry, 15_000), "{stats:?}");
        assert!(is_about(stats.due, 120_000) && is_about(stats.scheduled, 30_000), "{stats:?}");
        let backlog = store.backlog(BacklogBy::Type, 10).await.expect("backlog works");
        assert_eq!((backlog.groups[0].count, backlog.complete), (20_000, false));

        let stats = change(store, script.done).await;
        assert_eq!((stats.new, stats.retry), (30_000, 0));
        assert_eq!(stats.estimated, Estimated { done: true, ..Estimated::default() });
        assert!(is_about(stats.done, 120_000), "{stats:?}");

        let stats = change(store, script.dead).await;
        assert_eq!((stats.new, stats.done), (0, 0));
        assert_eq!(stats.estimated, Estimated { dead: true, ..Estimated::default() });
        assert!(is_about(stats.dead, 150_000), "{stats:?}");

        let stats = change(store, &script.archive.replace("{columns}", COLUMNS)).await;
        let archive_error = stats.archived.abs_diff(150_000);
        assert!(stats.estimated.archived && archive_error <= script.archive_error, "{stats:?}");
    }
}
