//! One round of the benchmark of a store: measures every variant once. With several rounds, background load affects all
//! variants about equally.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste::{Delivery, Event, Outbox, Routes, WriterHook};
use tokio::sync::mpsc;

use super::batch_size::{self, CallSizeRound};
use super::bench_store::{BenchStore, BenchTables, BenchWriter, ByHand, Written};
use super::instrumented_engine::{self, CountingEngine};
use super::progress::Progress;
use super::workload::{EVENT_TYPE, Load};
use crate::statistics::per_second;
use posthaste_measurements::{Histogram, Quantiles};

/// Events per transaction of the batch variants.
pub(super) const BATCH_EVENTS: u64 = 1_000;

/// Events per transaction of the variants with few events.
pub(super) const FEW_EVENTS: u64 = 10;

/// Maximum number of variants per round.
pub(super) const STEPS_PER_ROUND: u64 = 16;

/// Maximum number of commits in the measurement of latency. They are at least a millisecond apart.
const MAX_LATENCY_COMMITS: u64 = 2_000;

/// Results of one round, per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRound {
    pub(super) business: f64,
    pub(super) outbox: f64,
    /// The same in a process without an engine.
    pub(super) writer_only: f64,
    pub(super) hand_written: f64,
    /// Events in transactions of [`FEW_EVENTS`]: in one call of the Writer, or in one call per event.
    pub(super) few_together: f64,
    pub(super) few_singly: f64,
    pub(super) live_single: LiveRate,
    pub(super) live_batch: LiveRate,
    pub(super) backlog: DeliveryRate,
    /// The backlog including its writing.
    pub(super) write_and_drain: f64,
    pub(super) call_size: CallSizeRound,
    pub(super) by_hand: Option<ByHand>,
}

/// Delivery rate, and mean number of events per settle statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryRate {
    pub(super) per_second: f64,
    pub(super) settle_batch: f64,
}

/// Delivery rate while events are written, and the number of events not yet settled at the last commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRate {
    pub(super) delivered: DeliveryRate,
    pub(super) lag: u64,
}

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<StoreRound> {
    progress.begin("business only");
    let business = business(&bench.fresh().await?, load).await?;
    progress.begin("business and outbox");
    let outbox = outbox(&bench.fresh().await?, load).await?;
    progress.begin("business and outbox, delivered elsewhere");
    let writer_only = writer_only(&bench.fresh().await?, load).await?;
    progress.begin("business and a hand-written INSERT");
    let hand_written = hand_written(&bench.fresh().await?, load).await?;
    progress.begin("live, business and one event per transaction");
    let live_single = live(&bench.fresh().await?, load, 1).await?;
    progress.begin("a few events by one call");
    let few_together = few(&bench.fresh().await?, load, FEW_EVENTS).await?;
    progress.begin("a few events by one call each");
    let few_singly = few(&bench.fresh().await?, load, 1).await?;
    progress.begin("live, in batches");
    let live_batch = live(&bench.fresh().await?, load, BATCH_EVENTS).await?;
    progress.begin("backlog");
    let (backlog, write_and_drain) = backlog(&bench.fresh().await?, load).await?;
    let call_size = batch_size::measure(bench, load, progress).await?;
    let by_hand = bench.by_hand(load, progress).await?;
    Ok(StoreRound {
        business,
        outbox,
        writer_only,
        hand_written,
        few_together,
        few_singly,
        live_single,
        live_batch,
        backlog,
        write_and_drain,
        call_size,
        by_hand,
    })
}

/// Measures two variants. Their order alternates from round to round, because the first may change the state of the
/// machine for the second.
pub(super) async fn in_turns(
    round: u64,
    one: impl AsyncFnOnce() -> anyhow::Result<f64>,
    other: impl AsyncFnOnce() -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, f64)> {
    if round.is_multiple_of(2) {
        return Ok((one().await?, other().await?));
    }
    let other = other().await?;
    Ok((one().await?, other))
}

async fn business<T: BenchTables>(tables: &T, load: &Load) -> anyhow::Result<f64> {
    let took = load.spread(load.events, tables, |tables, load, number| async move {
        tables.business((number, load.body())).await
    });
    Ok(per_second(load.events, took.await?))
}

async fn hand_written<T: BenchTables>(tables: &T, load: &Load) -> anyhow::Result<f64> {
    let took = load.spread(load.events, tables, |tables, load, number| async move {
        tables.hand_written((number, load.body())).await
    });
    Ok(per_second(load.events, took.await?))
}

async fn outbox<T: BenchTables>(tables: &T, load: &Load) -> anyhow::Result<f64> {
    let outbox = instrumented_engine::start_stalled(tables.store(), load)?;
    let took = write_with_business(&tables.writer(&outbox), load).await?;
    outbox.abort();
    Ok(per_second(load.events, took))
}

async fn writer_only<T: BenchTables>(tables: &T, load: &Load) -> anyhow::Result<f64> {
    let outbox = Outbox::builder(tables.store(), Routes::new()).writer_only().build()?;
    Ok(per_second(load.events, write_with_business(&tables.writer(&outbox), load).await?))
}

async fn write_with_business<W: BenchWriter>(writer: &W, load: &Load) -> anyhow::Result<Duration> {
    let work = |writer: W, load: Load, number| async move {
        writer.business_and_event((number, load.body()), load.event()?).await
    };
    load.spread(load.events, writer, work).await
}

/// Events in transactions of [`FEW_EVENTS`], `per_call` events per call of the Writer. The engine accepts them and
/// never delivers.
async fn few<T: BenchTables>(tables: &T, load: &Load, per_call: u64) -> anyhow::Result<f64> {
    let outbox = instrumented_engine::start_stalled(tables.store(), load)?;
    let writer = tables.writer(&outbox);
    let transactions = load.events.div_ceil(FEW_EVENTS);
    let took = load.spread(transactions, &writer, move |writer, load, _| async move {
        let calls = (0..FEW_EVENTS / per_call).map(|_| load.events(per_call)).collect::<Result<_, _>>()?;
        writer.transaction(Written { business: None, calls }).await
    });
    let took = took.await?;
    outbox.abort();
    Ok(per_second(transactions * FEW_EVENTS, took))
}

/// Writes while the engine runs. The clock stops when the last event is settled.
async fn live<T: BenchTables>(tables: &T, load: &Load, batch: u64) -> anyhow::Result<LiveRate> {
    let engine = CountingEngine::build(tables.store(), load)?;
    engine.outbox.start()?;
    let started = Instant::now();
    let writer = tables.writer(&engine.outbox);
    match batch {
        1 => write_with_business(&writer, load).await?,
        batch => load.write(&writer, batch).await?,
    };
    let lag = load.events.saturating_sub(engine.settled_so_far());
    engine.settled().await?;
    let per_second = per_second(load.events, started.elapsed());
    Ok(LiveRate { delivered: DeliveryRate { per_second, settle_batch: engine.stop().await }, lag })
}

/// Writes before the engine starts. Returns the rate of the drain, and the rate of writing and draining together.
pub(super) async fn backlog<T: BenchTables>(tables: &T, load: &Load) -> anyhow::Result<(DeliveryRate, f64)> {
    let engine = CountingEngine::build(tables.store(), load)?;
    let writing = load.write(&tables.writer(&engine.outbox), BATCH_EVENTS).await?;
    let started = Instant::now();
    engine.outbox.start()?;
    engine.settled().await?;
    let drain = started.elapsed();
    let backlog =
        DeliveryRate { per_second: per_second(load.events, drain), settle_batch: engine.stop().await };
    Ok((backlog, per_second(load.events, writing + drain)))
}

/// Measures from COMMIT to the call of the handler, on the hot path of an idle engine. Each transaction has one event,
/// and begins a millisecond after the event of the previous one has arrived.
pub(super) async fn latency<B: BenchStore>(bench: &B, load: &Load) -> anyhow::Result<Option<Quantiles>> {
    let tables = bench.fresh().await?;
    let clock = CommitClock::default();
    let (arrive, mut arrivals) = mpsc::unbounded_channel();
    let routes = Routes::new().handle(EVENT_TYPE, move |_: Delivery| {
        let _ = arrive.send(Instant::now());
        std::future::ready(())
    });
    let outbox = Outbox::from_config(tables.store(), instrumented_engine::config(load), routes)
        .hook(clock.clone())
        .start()?;
    let writer = tables.writer(&outbox);
    let mut histogram = Histogram::default();
    for number in 0..load.events.min(MAX_LATENCY_COMMITS) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        writer.business_and_event((number, load.body()), load.event()?).await?;
        let arrival = arrivals.recv().await;
        if let (Some(arrived), Some(committed)) = (arrival, clock.read()) {
            histogram.add(arrived.saturating_duration_since(committed));
        }
    }
    outbox.shutdown().await;
    Ok(histogram.quantiles())
}

/// The time of the last successful COMMIT.
#[derive(Clone, Default)]
pub(super) struct CommitClock(Arc<Mutex<Option<Instant>>>);

impl CommitClock {
    pub(super) fn read(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriterHook for CommitClock {
    fn after_commit(&self, _: &[Event]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
