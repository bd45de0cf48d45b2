//! `posthaste bench --publish URL`: how fast events get from a store to a broker.
//!
//! Each round measures three things one after the other: the broker's client library alone, with the same
//! acknowledgements; an engine on the store with a destination that does nothing; and the relay, which is the engine
//! with the publisher.

mod baseline;
mod counting_destination;
pub(super) mod report;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Event, Outbox, Outcome, Profile, Route, Routes};

use self::counting_destination::CountingDestination;
use self::report::{MemoryUse, PublishReport, PublishRound};
use super::BenchArgs;
use super::bench_store::{BenchStore, BenchTables};
use super::instrumented_engine;
use super::process_memory;
use super::progress::Progress;
use super::statistics::per_second;
use super::store_round::BATCH_EVENTS;
use super::workload::Load;
use posthaste_stores::SecretUrl;

/// Measurements per round.
const STEPS_PER_ROUND: u64 = 3;

/// Events per call of the destination that does nothing: as many as publishers take.
const NULL_BATCH_EVENTS: usize = 500;

/// The type of every aggregate.
const AGGREGATE_TYPE: &str = "Bench";

/// Number of aggregates; each is an ordering key.
const KEY_COUNT: u64 = 1_000;

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    url: &SecretUrl,
    is_watched: bool,
) -> anyhow::Result<PublishReport> {
    let load = args.load();
    let progress = Progress::new(is_watched, args.rounds * STEPS_PER_ROUND, 0);
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        progress.begin("the client library alone");
        let bare = per_second(load.events, baseline::publish(url.expose(), &load).await?);
        progress.begin("a destination that does nothing");
        let nothing = relay(bench, &load, Arc::new(NullDestination)).await?.0;
        progress.begin("the relay");
        let (relay, memory) = relay(bench, &load, publisher(url.expose())?).await?;
        rounds.push(PublishRound { bare, nothing, relay, memory });
    }
    progress.clear();
    Ok(PublishReport::new(bench.name(), args, url, &rounds))
}

/// Plain HTTP and local addresses are allowed, because the endpoint of a benchmark may be on this machine.
fn publisher(url: &str) -> anyhow::Result<Arc<dyn Destination>> {
    if url.starts_with("http") {
        let builder = posthaste_publishers::http::HttpPublisher::builder(url).allow_http();
        return Ok(Arc::new(builder.allow_networks(["127.0.0.0/8", "::1/128"]).build()?));
    }
    Ok(posthaste_publishers::publisher(url)?)
}

/// Events per second from a backlog in the store to this destination, and the memory of this process.
async fn relay<B: BenchStore>(
    bench: &B,
    load: &Load,
    destination: Arc<dyn Destination>,
) -> anyhow::Result<(f64, MemoryUse)> {
    bench.clear().await?;
    let tables = bench.create().await?;
    let writer_only = Outbox::builder(tables.store(), Routes::new()).writer_only().build()?;
    write(&tables.writer(&writer_only), load).await?;
    let destination = CountingDestination::new(destination, load.events);
    let routes = Routes::new().add(Route::fallback().deliver_to(destination.clone()));
    let outbox = Outbox::from_config(tables.store(), instrumented_engine::config(load), routes).build()?;
    let started = Instant::now();
    outbox.start()?;
    destination.delivered(load.events / 10).await?;
    let early = process_memory::now();
    destination.delivered(load.events).await?;
    let late = process_memory::now();
    outbox.idle().await?;
    let took = started.elapsed();
    outbox.shutdown().await;
    Ok((per_second(load.events, took), MemoryUse { early, late }))
}

/// Writes the backlog: events with a key, as a service writes them.
async fn write<W: super::bench_store::BenchWriter>(writer: &W, load: &Load) -> anyhow::Result<()> {
    let write = |writer: W, load: Load, number| async move {
        let first = number * BATCH_EVENTS;
        let numbers = first..load.events.min(first + BATCH_EVENTS);
        writer.events(numbers.map(|number| event(&load, number)).collect::<Result<_, _>>()?).await
    };
    load.spread(load.events.div_ceil(BATCH_EVENTS), writer, write).await?;
    Ok(())
}

fn event(load: &Load, number: u64) -> anyhow::Result<Event> {
    let event = Event::builder(super::workload::EVENT_TYPE).aggregate(AGGREGATE_TYPE, key(number));
    Ok(event.json_text(load.body()).build()?)
}

fn key(number: u64) -> String {
    format!("key-{}", number % KEY_COUNT)
}

/// Accepts everything immediately.
struct NullDestination;

#[async_trait]
impl Destination for NullDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        batch.iter().map(|_| Outcome::done()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(NULL_BATCH_EVENTS)
    }
}
