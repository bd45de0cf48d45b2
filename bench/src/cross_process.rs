//! Latency as between two processes on one server: one only writes, the other delivers. Both run in this process, but
//! with a store each, so that they share only the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::config::PollerConfig;
use posthaste::{Delivery, Outbox, Routes, Store};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::bench_store::{BenchTables, BenchWriter as _, CrossProcessLatency};
use super::instrumented_engine;
use super::store_round::CommitClock;
use super::workload::{EVENT_TYPE, Load};
use posthaste_measurements::Histogram;

/// Commits of the measurement, and the longest pause between two.
const LATENCY_COMMITS: u64 = 500;
const MAX_COMMIT_PAUSE_MS: u64 = 20;

/// The default of the engine. It is so long that an event whose notification was lost is clearly late.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
const LATE_THRESHOLD: Duration = Duration::from_secs(1);

/// After this time an event counts as lost.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Measures the time from COMMIT to the call of the handler. The engine that calls it has its own store, `reading`.
pub(super) async fn latency<T: BenchTables>(
    tables: &T,
    reading: Arc<dyn Store>,
    load: &Load,
) -> anyhow::Result<CrossProcessLatency> {
    let (arrive, mut arrivals) = mpsc::unbounded_channel();
    let routes = Routes::new().handle(EVENT_TYPE, move |_: Delivery| {
        let _ = arrive.send(Instant::now());
        std::future::ready(())
    });
    let mut config = instrumented_engine::config(load);
    config.poller = PollerConfig::default();
    config.poller.interval = POLL_INTERVAL;
    let engine = Outbox::from_config(reading, config, routes).start()?;
    let clock = CommitClock::default();
    let outbox = Outbox::builder(tables.store(), Routes::new()).writer_only().hook(clock.clone()).build()?;
    let writer = tables.writer(&outbox);
    let (mut histogram, mut late) = (Histogram::default(), 0);
    for number in 0..load.events.min(LATENCY_COMMITS) {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..MAX_COMMIT_PAUSE_MS * 1_000))).await;
        writer.business_and_event((number, load.body()), load.event()?).await?;
        let arrived = timeout(ARRIVAL_TIMEOUT, arrivals.recv()).await;
        let arrived =
            arrived.map_err(|_| anyhow::anyhow!("an event did not reach the engine on the other store"))?;
        if let (Some(arrived), Some(committed), true) = (arrived, clock.read(), number > 0) {
            let took = arrived.saturating_duration_since(committed);
            late += u64::from(took >= LATE_THRESHOLD);
            histogram.add(took);
        }
    }
    engine.shutdown().await;
    Ok(CrossProcessLatency { us: histogram.quantiles(), late })
}
