//! What a service would write by hand for these tables alone: an INSERT that is proved, and relays in which nothing
//! can fail, retry, pause or be fenced off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use sqlx::Pool;
use tokio::sync::mpsc;

use super::{Connection, SqlBench, SqlDatabase, SqlTables, Statements};
use crate::bench_store::{BenchStore as _, BenchTables as _, Business, ByHand, TableFill};
use crate::figures::per_second;
use crate::progress::Progress;
use crate::table_size::FAR_FUTURE;
use crate::workload::Load;

/// Events per claim: as many as the engine takes.
pub(crate) const CLAIM_EVENTS: usize = crate::instrumented_engine::CLAIM_EVENTS;

/// Events that are settled one by one, at the most: that takes long.
const MAX_ONE_BY_ONE_EVENTS: u64 = 1_000;

/// What an event has that is leased as it is inserted.
pub(crate) const LEASE_OWNER: &str = "bench#0123456789abcdef0123456789abcdef";

/// Rows that are filled in: their status, and in how many seconds they are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'l> {
    pub(crate) count: u64,
    pub(crate) status: i16,
    pub(crate) due_in_s: i64,
    pub(crate) body: &'l str,
}

/// The statements of a relay by hand.
#[async_trait]
pub(crate) trait RelayStatements: Statements {
    /// A connection with the settings of a relay that settles many events, or one after the other.
    async fn connect(pool: &Pool<Self::Db>, mode: RelayMode) -> Result<Connection<Self>>;

    /// Inserts an event and finds it again, which makes a commit certain.
    async fn insert_proved(&self, db: &mut Connection<Self>, business: Business<'_>) -> Result<bool>;

    /// The positions of at most [`CLAIM_EVENTS`] events.
    async fn claim(&self, db: &mut Connection<Self>) -> Result<Vec<i64>>;

    /// How many events were settled.
    async fn settle(&self, db: &mut Connection<Self>, seqs: &[i64]) -> Result<u64>;

    async fn insert_rows(&self, db: &mut Connection<Self>, rows: Rows<'_>) -> Result<()>;

    /// What the server does with a table sooner or later, now.
    async fn analyze(&self, pool: &Pool<Self::Db>) -> Result<()>;
}

/// How a relay by hand settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayMode {
    InBatches,
    OneByOne,
}

/// Everything but what it costs to notify other processes.
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

/// Transactions per second.
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

/// The best that claims of rows allow: the next batch is claimed while the last one is settled. Returns how long it
/// took.
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

/// How long it took to settle events one by one, and to claim and settle them.
struct OneByOne {
    settling: Duration,
    all: Duration,
}

/// As a simple relay: a batch is claimed, and each event is settled by a transaction of its own.
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

/// Everything of a claimed event but its position, which comes first: a handler wants an event of its own.
pub(crate) type ClaimedRow<Time> =
    (i64, String, String, String, Option<String>, Option<String>, Option<String>, String, i32, Time);

/// The positions of these rows, in order.
pub(crate) fn positions<Time>(rows: &[ClaimedRow<Time>]) -> Vec<i64> {
    let mut seqs: Vec<i64> = rows.iter().map(|row| row.0).collect();
    seqs.sort_unstable();
    seqs
}
