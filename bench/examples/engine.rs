//! Benchmark of the whole engine on the memory store, with a handler that does nothing.
//!
//! `cargo xtask bench engine [--events N] [--batch N] [--workers N] [--rounds N] [--paced N]`
//!
//! - *hot*: a writer commits `--batch` events per transaction as fast as the engine accepts them; the clock stops when
//!   the last event is settled;
//! - *backlog*: the same events are in the store before the engine starts;
//! - *latency*: single commits, one every millisecond, measured from before COMMIT to the handler.
//!
//! Each round runs all three, so that background load affects them equally. Medians are printed.

use std::alloc::System;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser as _;
use clap::builder::RangedU64ValueParser;
use posthaste::config::PurgeConfig;
use posthaste::store::OnDone;
use posthaste::{Config, Delivery, Event, MemoryStore, MemoryWriter, Outbox, Routes};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::{Mutex, Notify};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut hot = Vec::new();
    let mut backlog = Vec::new();
    let mut latency = Vec::new();
    for round in 1..=options.rounds {
        hot.push(runtime.block_on(run_hot(&options))?);
        backlog.push(runtime.block_on(run_backlog(&options))?);
        latency.push(runtime.block_on(run_paced(&options))?);
        eprintln!(
            "round {round}: hot {:.0}/s, backlog {:.0}/s, p50 {:.1} µs",
            hot[round - 1].rate,
            backlog[round - 1].rate,
            latency[round - 1].p50
        );
    }
    report(&options, &hot, &backlog, &latency);
    Ok(())
}

#[derive(clap::Parser)]
struct Options {
    /// Events per round
    #[arg(long, default_value_t = 400_000)]
    events: usize,
    /// Events per transaction
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Events that are delivered at the same time
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Rounds, whose medians are printed
    #[arg(long, default_value = "5", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    rounds: usize,
    /// Single commits of the latency measurement
    #[arg(long, default_value = "2000", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    paced: usize,
}

struct Throughput {
    rate: f64,
    allocations: f64,
    /// Highest number of events that the engine held at the same time.
    held: usize,
    /// Highest number of bytes that were allocated at the same time, beyond those at the start of the run.
    live: usize,
}

struct Latency {
    p50: f64,
    p99: f64,
}

/// A handler that counts events and notifies `done` after the last one.
#[derive(Clone)]
struct Counter {
    seen: Arc<AtomicUsize>,
    expected: usize,
    done: Arc<Notify>,
}

impl Counter {
    fn new(expected: usize) -> Self {
        Self { seen: Arc::default(), expected, done: Arc::default() }
    }

    fn routes(&self) -> Routes {
        let counter = self.clone();
        Routes::new().handle("Bench", move |_: Delivery| {
            let counter = counter.clone();
            async move {
                if counter.seen.fetch_add(1, Ordering::Relaxed) + 1 == counter.expected {
                    counter.done.notify_one();
                }
            }
        })
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.workers = Some(options.workers);
    config.poller.batch = 1000;
    config.poller.interval = Duration::from_millis(100);
    config.purge = PurgeConfig::default().with_on_done(OnDone::Delete);
    config
}

fn events(count: usize) -> Result<Vec<Event>> {
    let payload = serde_json::json!({ "order": 17, "total": "42.00", "currency": "EUR", "lines": [1, 2, 3] });
    Ok((0..count).map(|_| Event::json("Bench", &payload)).collect::<std::result::Result<_, _>>()?)
}

/// Writes events as fast as possible. Returns the highest number of held events, and the highest number of live bytes.
async fn write(store: &MemoryStore, outbox: &Outbox, count: usize, batch: usize) -> Result<(usize, usize)> {
    let writer = MemoryWriter::new(store, outbox);
    let before = live_bytes();
    let (mut held, mut live) = (0, 0);
    let mut left = count;
    while left > 0 {
        let mut tx = writer.begin().await?;
        let now = left.min(batch);
        tx.write_all(events(now)?).await?;
        tx.commit().await?;
        left -= now;
        held = held.max(outbox.held());
        live = live.max(live_bytes().saturating_sub(before));
        // Writer and workers share the cores: a writer that runs ahead would only fill the store.
        tokio::task::yield_now().await;
    }
    Ok((held, live))
}

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

async fn run_hot(options: &Options) -> Result<Throughput> {
    let store = MemoryStore::new();
    let counter = Counter::new(options.events);
    let outbox = Outbox::from_config(store.clone(), config(options), counter.routes()).build()?;
    outbox.start()?;
    let before = ALLOCATOR.stats().allocations;
    let started = Instant::now();
    let (held, live) = write(&store, &outbox, options.events, options.batch).await?;
    counter.done.notified().await;
    outbox.idle().await?;
    let rate = finish(options, started, before, &outbox).await;
    Ok(Throughput { held, live, ..rate })
}

async fn run_backlog(options: &Options) -> Result<Throughput> {
    let store = MemoryStore::new();
    let counter = Counter::new(options.events);
    let outbox = Outbox::from_config(store.clone(), config(options), counter.routes()).build()?;
    write(&store, &outbox, options.events, 1000).await?;
    let before = ALLOCATOR.stats().allocations;
    let started = Instant::now();
    outbox.start()?;
    counter.done.notified().await;
    outbox.idle().await?;
    Ok(finish(options, started, before, &outbox).await)
}

async fn finish(
    options: &Options,
    started: Instant,
    allocations_before: usize,
    outbox: &Outbox,
) -> Throughput {
    let rate = options.events as f64 / started.elapsed().as_secs_f64();
    let allocations = (ALLOCATOR.stats().allocations - allocations_before) as f64 / options.events as f64;
    outbox.shutdown().await;
    Throughput { rate, allocations, held: 0, live: 0 }
}

async fn run_paced(options: &Options) -> Result<Latency> {
    let store = MemoryStore::new();
    let arrivals = Arc::new(Mutex::new(Vec::with_capacity(options.paced)));
    let arrived = Arc::new(Notify::new());
    let routes = {
        let (arrivals, arrived) = (Arc::clone(&arrivals), Arc::clone(&arrived));
        Routes::new().handle("Bench", move |_: Delivery| {
            let now = Instant::now();
            let (arrivals, arrived) = (Arc::clone(&arrivals), Arc::clone(&arrived));
            async move {
                arrivals.lock().await.push(now);
                arrived.notify_one();
            }
        })
    };
    let outbox = Outbox::from_config(store.clone(), config(options), routes).build()?;
    outbox.start()?;
    let writer = MemoryWriter::new(&store, &outbox);
    let mut micros = Vec::with_capacity(options.paced);
    for event in events(options.paced)? {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut tx = writer.begin().await?;
        tx.write(event).await?;
        let committed = Instant::now();
        tx.commit().await?;
        arrived.notified().await;
        let at = arrivals.lock().await.pop().ok_or("an arrival was announced")?;
        micros.push(at.saturating_duration_since(committed).as_secs_f64() * 1e6);
    }
    outbox.shutdown().await;
    micros.sort_by(f64::total_cmp);
    Ok(Latency { p50: micros[micros.len() / 2], p99: micros[micros.len() * 99 / 100] })
}

fn report(options: &Options, hot: &[Throughput], backlog: &[Throughput], latency: &[Latency]) {
    println!("events per round      {:>12}", options.events);
    println!("hot, events/s         {:>12.0}", median(hot.iter().map(|run| run.rate)));
    println!("backlog, events/s     {:>12.0}", median(backlog.iter().map(|run| run.rate)));
    println!("commit → handler p50  {:>12.1} µs", median(latency.iter().map(|run| run.p50)));
    println!("commit → handler p99  {:>12.1} µs", median(latency.iter().map(|run| run.p99)));
    println!(
        "allocations per event {:>12.1} (hot, writing included)",
        median(hot.iter().map(|run| run.allocations))
    );
    println!("allocations per event {:>12.1} (backlog)", median(backlog.iter().map(|run| run.allocations)));
    println!("most events held      {:>12} (hot)", hot.iter().map(|run| run.held).max().unwrap_or(0));
    let live = hot.iter().map(|run| run.live).max().unwrap_or(0);
    println!("live bytes, most      {live:>12} (hot, store included)");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
