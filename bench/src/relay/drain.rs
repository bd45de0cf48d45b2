//! How fast a backlog is drained, by an engine in this process and by a relay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::{Config, Outbox, Route, Routes, Store};

use super::process::RelayProcess;
use super::sink::FileSink;
use super::write;
use crate::bench_store::{BenchStore, BenchTables};
use crate::statistics::per_second;
use crate::workload::Load;
use posthaste_stores::SecretUrl;

/// Pause before the clock starts: longer than the drainer waits between two polls.
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// Pause between two checks whether all events are settled.
const SETTLED_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Events per second of an engine with the settings of a relay.
pub(super) async fn by_library<B: BenchStore>(bench: &B, load: &Load) -> anyhow::Result<f64> {
    let (tables, sink) = (bench.fresh().await?, FileSink::new()?);
    let publisher = posthaste_publishers::publisher(&sink.url())?;
    let routes = Routes::new().add(Route::fallback().deliver_to(publisher));
    let outbox = Outbox::from_config(tables.store(), Config::relay(), routes).start()?;
    let drained = drain(&tables, &sink, load).await;
    outbox.shutdown().await;
    drained
}

/// Events per second of a relay.
pub(super) async fn by_relay<B: BenchStore>(
    bench: &B,
    store: &SecretUrl,
    load: &Load,
) -> anyhow::Result<f64> {
    let (tables, sink) = (bench.fresh().await?, FileSink::new()?);
    let mut relay = RelayProcess::start(&tables, store, &sink)?;
    relay.until(drain(&tables, &sink, load)).await?
}

/// The first event shows that the relay is ready, and how long a line is.
async fn drain<T: BenchTables>(tables: &T, sink: &FileSink, load: &Load) -> anyhow::Result<f64> {
    write(tables, load.events(1)?).await?;
    sink.has_one().await?;
    settled(&tables.store()).await?;
    tokio::time::sleep(IDLE_PAUSE).await;
    let line = sink.bytes();
    let events = load.events(load.events)?;
    write(tables, events).await?;
    let started = Instant::now();
    sink.has_bytes(line * (1 + load.events)).await;
    settled(&tables.store()).await?;
    Ok(per_second(load.events, started.elapsed()))
}

async fn settled(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    while store.oldest_pending(None).await?.is_some() {
        tokio::time::sleep(SETTLED_CHECK_INTERVAL).await;
    }
    Ok(())
}
