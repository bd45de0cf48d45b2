//! `posthaste bench --layout PRESET`: how fast a foreign table is drained.
//!
//! Each round drains the same events twice, in alternating order: from Posthaste's own table, and from the table of the
//! preset.

pub(super) mod report;

use std::sync::Arc;
use std::time::Instant;

use self::report::{ForeignReport, ForeignRound};
use super::BenchArgs;
use super::bench_store::BenchStore;
use super::foreign_preset::ForeignPreset;
use super::instrumented_engine::CountingEngine;
use super::progress::Progress;
use super::store_round::{backlog, in_turns};
use super::workload::Load;
use crate::statistics::per_second;
use posthaste_stores::InvalidStore;

/// Measurements per round.
const STEPS_PER_ROUND: u64 = 2;

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    preset: ForeignPreset,
    is_watched: bool,
) -> anyhow::Result<ForeignReport> {
    let load = args.load();
    let progress = Progress::new(is_watched, args.rounds * STEPS_PER_ROUND, 0);
    let mut rounds = Vec::new();
    for number in 0..args.rounds {
        rounds.push(round(bench, preset, &load, number, &progress).await?);
    }
    progress.clear();
    Ok(ForeignReport::new(bench.name(), args, preset, &rounds))
}

async fn round<B: BenchStore>(
    bench: &B,
    preset: ForeignPreset,
    load: &Load,
    number: u64,
    progress: &Progress,
) -> anyhow::Result<ForeignRound> {
    let own = async || {
        progress.begin("drained from a table of Posthaste's own");
        anyhow::Ok(backlog(&bench.fresh().await?, load).await?.0.per_second)
    };
    let foreign = async || {
        progress.begin("drained from a foreign table");
        drain(bench, preset, load).await
    };
    let (own, foreign) = in_turns(number, own, foreign).await?;
    Ok(ForeignRound { own, foreign })
}

/// Returns events per second. All rows are in the table before the engine starts.
async fn drain<B: BenchStore>(bench: &B, preset: ForeignPreset, load: &Load) -> anyhow::Result<f64> {
    bench.clear().await?;
    let Some(store) = bench.foreign(preset, load).await? else {
        let text = "layouts are for PostgreSQL, MySQL and MariaDB: name one of them with --store";
        return Err(InvalidStore::new(text).into());
    };
    let engine = CountingEngine::build(Arc::new(store.clone()), load)?;
    let started = Instant::now();
    engine.outbox.start()?;
    engine.settled().await?;
    let took = started.elapsed();
    engine.stop().await;
    store.close().await;
    Ok(per_second(load.events, took))
}
