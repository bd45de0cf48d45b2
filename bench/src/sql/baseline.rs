//! Baseline for SQL: what a service could write by hand for these tables. It has an INSERT with a proof, and relays
//! that support neither failures, nor retries, pauses or fencing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use sqlx::Pool;
use tokio::sync::mpsc;

use super::{Connection, SqlBench, SqlDatabase, SqlTables, Statements};
use crate::bench_store::{BenchStore as _, BenchTables as _, Business, ByHand, TableFill};
use crate::progress::Progress;
use crate::statistics::per_second;
use crate::table_size::FAR_FUTURE;
use crate::workload::Load;

/// Events per claim, as many as the engine claims.
pub(crate) const CLAIM_EVENTS: usize = crate::instrumented_engine::CLAIM_EVENTS;

/// Maximum number of events that are settled one by one, because that is slow.
const MAX_ONE_BY_ONE_EVENTS: u64 = 1_000;

/// `locked_by` of an event that is inserted with a lease.
pub(crate) const LEASE_OWNER: &str = "bench#0123456789abcdef0123456789abcdef";

/// Rows to fill in: their number, their status, and in how many seconds they are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'l> {
    pub(crate) count: u64,
    pub(crate) status: i16,
    pub(crate) due_in_s: i64,
    pub(crate) body: &'l str,
}

/// Statements of a hand-written relay.
#[async_trait]
pub(crate) trait RelayStatements: Statements {
    /// A connection with the settings that fit the mode.
    async fn connect(pool: &Pool<Self::Db>, mode: RelayMode) -> Result<Connection<Self>>;

    /// Inserts an event and reads it back, which proves that COMMIT will include it.
    async fn insert_proved(&self, db: &mut Connection<Self>, business: Business<'_>) -> Result<bool>;

    /// Claims at most [`CLAIM_EVENTS`] events and returns their `seq`.
    async fn claim(&self, db: &mut Connection<Self>) -> Result<Vec<i64>>;

    /// Settles events and returns how many.
    async fn settle(&self, db: &mut Connection<Self>, seqs: &[i64]) -> Result<u64>;

    async fn insert_rows(&self, db: &mut Connection<Self>, rows: Rows<'_>) -> Result<()>;

    /// Runs the maintenance that the server would do sooner or later: statistics, and vacuum.
    async fn analyze(&self, pool: &Pool<Self::Db>) -> Result<()>;
}

/// How a hand-written relay settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayMode {
    InBatches,
    OneByOne,
}

/// Measures everything except the cost of notifications.
pub(crate) async fn measure<D>(bench: &SqlBench<D>, load: &Load, progress: &Progress) -> Result<ByHand>
where
    D: SqlDatabase<Statements: RelayStatements>,
{
    progress.begin("a hand-written INSERT that is proved");
    let proved = proved(&bench.fresh().await?, load).await?;
    progress.begin("drained by hand");
    let tables = backlog(bench, load, load.events).await?;
    let drain = per_second(load.events, best_case(&tables, load.events).await?);
    progress.begin("drained by hand, one by one");
    let singles = load.events.min(MAX_ONE_BY_ONE_EVENTS);
    let SqlTables { pool, statements, .. } = backlog(bench, load, singles).await?;
    let one_by_one = per_second(singles, one_by_one(&pool, &statements, singles).await?.all);
    Ok(ByHand { proved: Some(proved), drain, one_by_one, notify_cost: None })
}

async fn backlog<D: SqlDatabase>(
    bench: &SqlBench<D>,
    load: &Load,
    events: u64,
) -> Result<SqlTables<D::Statements>> {
    let tables = bench.fresh().await?;
    tables.fill(TableFill::pending(events), load).await?;
    Ok(tables)
}

/// Returns transactions per second.
async fn proved<S: RelayStatements>(tables: &SqlTables<S>, load: &Load) -> Result<f64> {
    let took =
        load.spread(load.events, tables, |SqlTables { pool, statements, .. }, load, number| async move {
            let mut tx = pool.begin_with(S::BEGIN).await?;
            let business = (number, load.body());
            statements.insert_business(&mut tx, business).await?;
            anyhow::ensure!(statements.insert_proved(&mut tx, business).await?, "the event is gone");
            Ok(tx.commit().await?)
        });
    Ok(per_second(load.events, took.await?))
}

/// The fastest relay with row claims: it claims the next batch while the last one is settled. Returns how long it took.
async fn best_case<S: RelayStatements>(tables: &SqlTables<S>, events: u64) -> Result<Duration> {
    let SqlTables { pool, statements, .. } = tables;
    let mut claiming = S::connect(pool, RelayMode::InBatches).await?;
    let mut settling = S::connect(pool, RelayMode::InBatches).await?;
    let started = Instant::now();
    let (hand_over, mut claimed) = mpsc::channel::<Vec<i64>>(1);
    let claimer = {
        let statements = statements.clone();
        tokio::spawn(async move {
            loop {
                let seqs = statements.claim(&mut claiming).await?;
                if seqs.is_empty() || hand_over.send(seqs).await.is_err() {
                    return anyhow::Ok(());
                }
            }
        })
    };
    let mut left = events;
    while left > 0 {
        let seqs = claimed.recv().await.context("the backlog ended too early")?;
        left -= statements.settle(&mut settling, &seqs).await?;
    }
    let took = started.elapsed();
    drop(claimed);
    claimer.await??;
    Ok(took)
}

/// Time to settle events one by one, and time to claim and settle them.
struct OneByOne {
    settling: Duration,
    all: Duration,
}

/// A simple relay: it claims a batch and settles each event in a transaction of its own.
async fn one_by_one<S: RelayStatements>(pool: &Pool<S::Db>, statements: &S, events: u64) -> Result<OneByOne> {
    let mut connection = S::connect(pool, RelayMode::OneByOne).await?;
    let started = Instant::now();
    let (mut left, mut settling) = (events, Duration::ZERO);
    while left > 0 {
        let seqs = statements.claim(&mut connection).await?;
        anyhow::ensure!(!seqs.is_empty(), "the backlog ended too early");
        let claimed = Instant::now();
        for seq in seqs {
            left -= statements.settle(&mut connection, &[seq]).await?;
        }
        settling += claimed.elapsed();
    }
    Ok(OneByOne { settling, all: started.elapsed() })
}

/// Writes events and settles them one by one. Returns how long the settling took.
pub(crate) async fn settle_one_by_one<S: RelayStatements>(
    pool: &Pool<S::Db>,
    statements: &S,
    events: u64,
    load: &Load,
) -> Result<Option<Duration>> {
    let rows = Rows { count: events, status: 0, due_in_s: 0, body: load.body() };
    statements.insert_rows(&mut *pool.acquire().await?, rows).await?;
    Ok(Some(one_by_one(pool, statements, events).await?.settling))
}

pub(crate) async fn fill<S: RelayStatements>(
    pool: &Pool<S::Db>,
    statements: &S,
    full: TableFill,
    load: &Load,
) -> Result<bool> {
    let mut connection = pool.acquire().await?;
    let later = i64::try_from(FAR_FUTURE.as_secs())?;
    for (count, status, due_in_s) in
        [(full.done_rows, 1, 0), (full.future_rows, 2, later), (full.pending_rows, 0, 0)]
    {
        let rows = Rows { count, status, due_in_s, body: load.body() };
        statements.insert_rows(&mut *connection, rows).await?;
    }
    drop(connection);
    statements.analyze(pool).await?;
    Ok(true)
}

/// A claimed row; `seq` comes first. The other columns are read because a handler needs the whole event.
pub(crate) type ClaimedRow<Time> =
    (i64, String, String, String, Option<String>, Option<String>, Option<String>, String, i32, Time);

/// The `seq` of these rows, in order.
pub(crate) fn positions<Time>(rows: &[ClaimedRow<Time>]) -> Vec<i64> {
    let mut seqs: Vec<i64> = rows.iter().map(|row| row.0).collect();
    seqs.sort_unstable();
    seqs
}
