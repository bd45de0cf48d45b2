//! Baseline for Redis: relays that call the store's scripts and do nothing else, an upper bound for the engine.

use std::time::{Duration, Instant};

use posthaste::store::{OnDone, Settlement, Verdict};

use super::super::bench_store::BenchTables;
use super::super::instrumented_engine::CLAIM_EVENTS;
use super::super::table_size::HandDrivenTable;

/// Claims the next batch while the last one is settled. Returns how long it took.
pub(super) async fn best_case(
    table: &HandDrivenTable<impl BenchTables>,
    events: u64,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut left = events;
    let mut claimed = claim(table, &mut left).await?;
    while !claimed.is_empty() {
        let (next, settled) = tokio::join!(claim(table, &mut left), table.settle(&claimed, OnDone::Keep));
        settled?;
        claimed = next?;
    }
    Ok(started.elapsed())
}

/// Time to settle events one by one, and time to claim and settle them.
pub(super) struct OneByOne {
    pub(super) settling: Duration,
    pub(super) all: Duration,
}

/// Claims a batch, and settles each event by a call of its own.
pub(super) async fn one_by_one(
    table: &HandDrivenTable<impl BenchTables>,
    events: u64,
) -> anyhow::Result<OneByOne> {
    let started = Instant::now();
    let (mut left, mut settling) = (events, Duration::ZERO);
    while left > 0 {
        let claimed = claim(table, &mut left).await?;
        let started = Instant::now();
        for settlement in &claimed {
            table.settle(std::slice::from_ref(settlement), OnDone::Keep).await?;
        }
        settling += started.elapsed();
    }
    Ok(OneByOne { settling, all: started.elapsed() })
}

/// Claims as many events as the engine does; none if the backlog is empty.
async fn claim(table: &HandDrivenTable<impl BenchTables>, left: &mut u64) -> anyhow::Result<Vec<Settlement>> {
    let rows = (CLAIM_EVENTS as u64).min(*left);
    if rows == 0 {
        return Ok(Vec::new());
    }
    *left -= rows;
    table.claim(rows, &Verdict::Done).await
}
