//! `posthaste bench --relay`: the cost of a relay as a separate process.
//!
//! Each round starts a relay and observes it while it is idle. Then the same events are drained twice, in alternating
//! order: by an engine in this process, and by a relay.

mod drain;
mod process;
pub(super) mod report;
mod sink;
mod usage;

use std::time::{Duration, Instant};

use posthaste::{Event, Outbox, Routes};

use self::process::RelayProcess;
use self::report::{RelayReport, RelayRound};
use self::sink::FileSink;
use self::usage::ProcessUsage;
use super::BenchArgs;
use super::bench_store::{BenchStore, BenchTables, BenchWriter};
use super::progress::Progress;
use super::store_round::in_turns;
use super::workload::Load;

/// Measurements per round.
const STEPS_PER_ROUND: u64 = 4;

/// Pause after the first delivery, before the relay counts as idle.
const IDLE_DELAY: Duration = Duration::from_secs(2);

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    is_watched: bool,
) -> anyhow::Result<RelayReport> {
    let load = args.load();
    let progress = Progress::new(is_watched, args.rounds * STEPS_PER_ROUND, 0);
    let mut rounds = Vec::new();
    for number in 0..args.rounds {
        rounds.push(round(bench, args, &load, number, &progress).await?);
    }
    progress.clear();
    RelayReport::new(bench.name(), args, &rounds)
}

async fn round<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    load: &Load,
    number: u64,
    progress: &Progress,
) -> anyhow::Result<RelayRound> {
    let (start, idle) = start_and_idle(bench, args, load, progress).await?;
    let library = async || {
        progress.begin("drained by an engine in this process");
        drain::by_library(bench, load).await
    };
    let relay = async || {
        progress.begin("drained by a relay");
        drain::by_relay(bench, &args.store, load).await
    };
    let (library, relay) = in_turns(number, library, relay).await?;
    Ok(RelayRound { start, idle, library, relay })
}

/// Measures the time from the start of the process to the delivery of an event that was waiting, and the idle usage
/// afterwards.
async fn start_and_idle<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<(Duration, ProcessUsage)> {
    let (tables, sink) = (bench.fresh().await?, FileSink::new()?);
    write(&tables, load.events(1)?).await?;
    progress.begin("the start of a relay");
    let started = Instant::now();
    let mut relay = RelayProcess::start(&tables, &args.store, &sink)?;
    relay.until(sink.has_one()).await??;
    let took = started.elapsed();
    progress.begin("an idle relay");
    relay.until(tokio::time::sleep(IDLE_DELAY)).await?;
    let before = usage::ProcessReading::of(relay.id());
    relay.until(tokio::time::sleep(Duration::from_secs(args.idle))).await?;
    Ok((took, usage::between(before, usage::ProcessReading::of(relay.id()))))
}

/// Writes all events in one transaction, without a lease, so that they become visible together.
async fn write<T: BenchTables>(tables: &T, events: Vec<Event>) -> anyhow::Result<()> {
    let outbox = Outbox::builder(tables.store(), Routes::new()).writer_only().build()?;
    tables.writer(&outbox).events(events).await
}
