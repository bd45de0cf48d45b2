//! Relays that call the store's own scripts and do nothing else: what the engine could reach at the most.

use std::time::{Duration, Instant};

use posthaste::store::{OnDone, Settlement, Verdict};

use super::super::bench_store::BenchTables;
use super::super::instrumented_engine::CLAIM_EVENTS;
use super::super::table_size::HandDrivenTable;

/// The next batch is claimed while the last one is settled. Answers how long it took.
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

/// How long it took to settle events one by one, and to claim and settle them.
pub(super) struct OneByOne {
    pub(super) settling: Duration,
    pub(super) all: Duration,
}

/// A batch is claimed, and each event is settled by a call of its own.
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

/// As many as the engine takes; none when the backlog is empty.
async fn claim(table: &HandDrivenTable<impl BenchTables>, left: &mut u64) -> anyhow::Result<Vec<Settlement>> {
    let rows = (CLAIM_EVENTS as u64).min(*left);
    if rows == 0 {
        return Ok(Vec::new());
    }
    *left -= rows;
    table.claim(rows, &Verdict::Done).await
}
