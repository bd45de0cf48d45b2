//! Program of a node: it reports line by line what it does, and executes the commands that it reads from its standard
//! input, until the input ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use posthaste::{Delivery, Destination, Outbox, Outcome, Profile, Route, Routes};
use tokio::sync::watch;

use super::{Config, Handling, NODE_VAR, spend, write_as_service};
use crate::support::child::{read_commands, report};
use crate::support::{Place, Store, Writer};

/// Runs a node, if this process was started as one.
pub fn run_node() {
    let Ok(config) = std::env::var(NODE_VAR) else { return };
    let config: Config = serde_json::from_str(&config).expect("a configuration");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(run(config));
}

async fn run(config: Config) {
    let counters = Counters::default();
    metrics::set_global_recorder(counters.clone()).expect("the only recorder");
    let place = Place::at(&config.location);
    let (store, pool) = (place.open().await, place.pool(2).await);
    let (go, gate) = watch::channel(false);
    let outbox = start_engine(&config, store.clone(), gate);
    let writer = Writer::new(&store, &outbox);
    report("READY", "");
    let mut commands = read_commands();
    while let Some(line) = commands.recv().await {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["GO"] => drop(go.send_replace(true)),
            ["WRITE", count, name] => {
                let count = count.parse().expect("a number");
                write_as_service(&writer, &pool, name, count, config.delay, report).await;
                report("WROTE", name);
            }
            _ => panic!("unknown command {line}"),
        }
    }
    outbox.shutdown().await;
    counters.report();
    report("END", "");
}

fn start_engine(config: &Config, store: Store, gate: watch::Receiver<bool>) -> Outbox {
    let destination = ReportingDestination { handling: config.handling, gate };
    let mut routes = Routes::new();
    for event_type in &config.types {
        routes = routes.add(Route::event(event_type.clone()).deliver_to(destination.clone()));
    }
    if config.types.is_empty() {
        routes = routes.add(Route::fallback().deliver_to(destination));
    }
    let outbox = Outbox::builder(store, routes)
        .lease(config.lease)
        .poll_interval(config.poll)
        .workers(config.workers)
        .hot_lease(config.lease)
        // Long for a test, but events without a route return within seconds.
        .no_route_grace(std::time::Duration::from_secs(30));
    outbox.start().expect("a good configuration")
}

/// Reports every event that it gets.
#[derive(Clone)]
struct ReportingDestination {
    handling: Handling,
    gate: watch::Receiver<bool>,
}

#[async_trait]
impl Destination for ReportingDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for delivery in batch {
            outcomes.push(self.deliver_one(delivery).await);
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

impl ReportingDestination {
    async fn deliver_one(&self, delivery: &Delivery) -> Outcome {
        let id = delivery.id().as_str();
        match delivery.payload_as::<String>() {
            Ok(payload) if payload == id => report("DELIVERED", id),
            _ => report("WRONG", id),
        }
        match self.handling {
            Handling::Takes(time) if time.is_zero() => {}
            Handling::Takes(time) => spend(time).await,
            Handling::Holds => {
                self.gate.clone().wait_for(|open| *open).await.expect("the node runs");
            }
        }
        match delivery.event_type() {
            "Failing" => Outcome::retry("it fails here"),
            "Aborting" => std::process::abort(),
            _ => Outcome::done(),
        }
    }
}

/// The counters of this process, by name.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Counters {
    fn report(&self) {
        for (name, count) in &*self.0.lock().expect("no panic") {
            report("COUNTER", &format!("{name} {}", count.load(Ordering::SeqCst)));
        }
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.0.lock().expect("no panic");
        Counter::from_arc(Arc::clone(counters.entry(key.name().to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
