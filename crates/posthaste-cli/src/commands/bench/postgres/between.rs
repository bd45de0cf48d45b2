//! Two processes on one server: one only writes, the other listens and delivers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::config::PollerConfig;
use posthaste::store::{Store as _, Wake};
use posthaste::{Config, Delivery, Outbox, Routes};
use posthaste_sqlx::postgres::Notify;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Postgres;
use super::tables::{PgTables, PgTablesWriter};
use crate::commands::bench::engine;
use crate::commands::bench::load::{EVENT_TYPE, Load};
use crate::commands::bench::rounds::{CommitClock, per_second};
use crate::commands::bench::target::{Between, Writer as _};
use crate::commands::figures::Histogram;

/// Commits of the latency measurement, and the longest pause between two.
const PACED: u64 = 500;
const PAUSE_MS: u64 = 20;

/// Polls are as rare as they are by default, so that an event which woke nobody shows.
const POLL: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(1);

/// How long to wait for an event before saying that it was lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many transactions per second a service commits that has no engine, while another process
/// listens.
pub(super) async fn writing(bench: &Postgres, load: &Load, notify: Notify) -> anyhow::Result<f64> {
    let tables = bench.fresh().await?;
    let _listening = listen(bench, &tables).await?;
    let outbox = Outbox::writer_only(tables.store.clone()).build()?;
    let store = bench.another(&tables, notify).await?;
    let writer = PgTablesWriter { writer: store.writer(&outbox), tables };
    let work = {
        let load = load.clone();
        move |number| {
            let (writer, load) = (writer.clone(), load.clone());
            async move { writer.business_and_event(number, load.body(), load.event()?).await }
        }
    };
    Ok(per_second(load.events, load.spread(load.events, work).await?))
}

/// Somebody who listens, and has begun to.
async fn listen(bench: &Postgres, tables: &PgTables) -> anyhow::Result<Wake> {
    let listener = bench.another(tables, Notify::Off).await?;
    let wake = listener.wake().unwrap_or_default();
    // It rings once when it has connected.
    timeout(PATIENCE, wake.rung()).await?;
    Ok(wake)
}

/// From the answer to COMMIT to the call of the handler in the other process.
pub(super) async fn latency(bench: &Postgres, load: &Load) -> anyhow::Result<Between> {
    let tables = bench.fresh().await?;
    let (arrive, mut arrivals) = mpsc::unbounded_channel();
    let routes = Routes::new().handle(EVENT_TYPE, move |_: Delivery| {
        let _ = arrive.send(Instant::now());
        std::future::ready(())
    });
    let config =
        Config { poller: PollerConfig { interval: POLL, ..PollerConfig::default() }, ..engine::config(load) };
    let reading = Arc::new(bench.another(&tables, Notify::Off).await?);
    let engine = Outbox::from_config(reading, config, routes).start()?;
    let clock = CommitClock::default();
    let outbox = Outbox::writer_only(tables.store.clone()).hook(clock.clone()).build()?;
    let writer = PgTablesWriter { writer: tables.store.writer(&outbox), tables };
    let (mut histogram, mut late) = (Histogram::default(), 0);
    for number in 0..load.events.min(PACED) {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..PAUSE_MS * 1_000))).await;
        writer.business_and_event(number, load.body(), load.event()?).await?;
        let arrived = timeout(PATIENCE, arrivals.recv()).await;
        let arrived = arrived.map_err(|_| anyhow::anyhow!("an event did not reach the other process"))?;
        if let (Some(arrived), Some(answered), true) = (arrived, clock.read(), number > 0) {
            let took = arrived.saturating_duration_since(answered);
            late += u64::from(took >= LATE);
            histogram.add(took);
        }
    }
    engine.shutdown().await;
    Ok(Between { us: histogram.quantiles(), late })
}
