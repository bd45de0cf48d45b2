//! How much there is: counted as long as that is quick, and then estimated.

use std::time::Duration;

use posthaste::admin::Stats;
use posthaste::{StoreError, Timestamp};

use crate::queries::{Queries, SqlQuery};
use crate::row::ReadValues;
use crate::row_estimate::{self, Estimate, SampledRows, Span, at_least_counted, is_too_many};
use crate::sql::{self, Sql};
use crate::store::{SqlStore, StoreDialect};

/// How one database counts.
pub(crate) trait StatsDialect: StoreDialect + Queries {
    /// Up to one row more than [`Stats::MAX_EXACT_COUNT`] of what is pending, done, dead and archived.
    const BOUNDED: &'static str;
    /// The states of all that is pending.
    const PENDING: &'static str;
    /// The routes that are paused.
    const PAUSED: &'static str;
    const PENDING_ROWS: SampledRows;
    const DEAD_ROWS: SampledRows;
    const DONE_ROWS: DoneRows;

    /// Lets statements of this transaction end at their limit.
    fn read_in_order(
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        async { Ok(()) }
    }

    /// A statement whose plan is made for the table as it is.
    fn fresh(sql: &Sql, statement: &'static str) -> SqlQuery<Self> {
        sql.query(statement)
    }

    /// Binds the time, for a database that has no clock of its own.
    fn bind_clock(query: SqlQuery<Self>) -> SqlQuery<Self> {
        query
    }

    /// A statement that ends after so many rows: the limit is its last value, or in its text.
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
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    fn read_oldest_pending(
        sql: &Sql,
        connection: &mut Self::Connection,
        now: Option<Timestamp>,
    ) -> impl Future<Output = Result<Option<Duration>, sqlx::Error>> + Send;

    /// The same for an engine.
    fn oldest_pending(
        store: &SqlStore<Self>,
        now: Option<Timestamp>,
    ) -> impl Future<Output = Result<Option<Duration>, StoreError>> + Send;
}

/// Where to find what is done.
pub(crate) enum DoneRows {
    /// In an index of its own.
    #[cfg(feature = "mysql")]
    Indexed(SampledRows),
    /// Among all rows. No index has it by `seq`: it is all but the others.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    AmongAll(SampledRows),
}

pub(crate) async fn read_stats<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> Result<Stats, sqlx::Error> {
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
) -> Result<Stats, sqlx::Error> {
    if is_too_many(counted) {
        return Ok(estimate::<D>(sql, connection, &D::PENDING_ROWS).await?.pending());
    }
    let query = D::bind_clock(D::fresh(sql, D::PENDING));
    row_estimate::read_pending(&D::fetch_one(query, connection).await?)
}

/// Replaces what was too much to count.
async fn estimate_ended<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    stats: &mut Stats,
) -> Result<(), sqlx::Error> {
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

/// How many rows of a kind there seem to be, and in which states.
pub(crate) async fn estimate<D: StatsDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    rows: &SampledRows,
) -> Result<Estimate, sqlx::Error> {
    let span = Span::read(&D::fetch_one(D::fresh(sql, rows.span), connection).await?)?;
    let Some(span) = span else { return Ok(Estimate::default()) };
    let samples = D::bind_clock(sql.at_positions(rows.sample, &span.sample_positions()));
    span.read_estimate(&D::fetch_all(samples, connection).await?)
}
