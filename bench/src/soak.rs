//! A steady load for a long time: memory and claim latency must stay constant.

use std::time::Duration;

use posthaste::{Delivery, Outbox, Routes};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use super::bench_store::{BenchStore, BenchTables, BenchWriter};
use super::instrumented_engine::{self, MeasuredStore};
use super::process_memory;
use super::progress::Progress;
use super::workload::{EVENT_TYPE, Load};
use posthaste_measurements::Quantiles;

/// Events per transaction and interval between transactions: 2,000 events per second.
const TRANSACTION_EVENTS: u64 = 10;
const TRANSACTION_INTERVAL: Duration = Duration::from_millis(5);

/// Concurrent writers, because a commit may take longer than the interval.
const WRITER_TASKS: u32 = 8;

/// Results of the first and of the last fifth of a run.
#[derive(Debug, Serialize)]
pub(super) struct SteadyLoad {
    pub(super) seconds: u64,
    pub(super) events: u64,
    /// Events that were not yet settled when the last one was written.
    pub(super) lag: u64,
    pub(super) first_memory_bytes: Option<u64>,
    pub(super) last_memory_bytes: Option<u64>,
    pub(super) first_claim_us: Option<Quantiles>,
    pub(super) last_claim_us: Option<Quantiles>,
}

/// Half of the transactions use the hot path; the events of the others must be claimed.
pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    load: &Load,
    seconds: u64,
    progress: &Progress,
) -> anyhow::Result<SteadyLoad> {
    progress.begin("a steady load");
    let tables = bench.fresh().await?;
    let store = MeasuredStore::new(tables.store());
    let routes = Routes::new().handle(EVENT_TYPE, |_: Delivery| std::future::ready(()));
    let outbox = Outbox::from_config(store.clone(), instrumented_engine::config(load), routes).start()?;
    let writer_only = Outbox::builder(tables.store(), Routes::new()).writer_only().build()?;
    let writers = [tables.writer(&outbox), tables.writer(&writer_only)];

    let fifth = Duration::from_secs(seconds).div_f64(5.0);
    let mut events = write_for(&writers, load, fifth).await?;
    let (first_memory_bytes, first) = (process_memory::now(), store.take_claims());
    events += write_for(&writers, load, fifth * 3).await?;
    store.take_claims();
    events += write_for(&writers, load, fifth).await?;
    let lag = events.saturating_sub(store.settled());
    let (last_memory_bytes, last) = (process_memory::now(), store.take_claims());
    outbox.shutdown().await;
    Ok(SteadyLoad {
        seconds,
        events,
        lag,
        first_memory_bytes,
        last_memory_bytes,
        first_claim_us: first.quantiles(),
        last_claim_us: last.quantiles(),
    })
}

/// Returns the number of events written. A store that is too slow for the rate gets fewer.
async fn write_for<W: BenchWriter>(writers: &[W; 2], load: &Load, time: Duration) -> anyhow::Result<u64> {
    let until = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for number in 0..WRITER_TASKS {
        let (writers, load) = (writers.clone(), load.clone());
        tasks.spawn(async move {
            let mut ticks = interval_at(
                Instant::now() + TRANSACTION_INTERVAL * number,
                TRANSACTION_INTERVAL * WRITER_TASKS,
            );
            let mut written = 0;
            for writer in writers.iter().cycle() {
                if ticks.tick().await >= until {
                    break;
                }
                writer.events(load.events(TRANSACTION_EVENTS)?).await?;
                written += TRANSACTION_EVENTS;
            }
            anyhow::Ok(written)
        });
    }
    let mut written = 0;
    while let Some(task) = tasks.join_next().await {
        written += task??;
    }
    Ok(written)
}
