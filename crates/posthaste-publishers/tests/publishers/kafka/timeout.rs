//! The publisher's timeout ends a call, not the engine's: only then each event has its own outcome.

use std::time::{Duration, Instant};

use posthaste::{Config, Destination as _, MemoryStore, Outbox, Outcome, Route, Routes};
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::server::wait_for_server;
use rdkafka::mocking::MockCluster;

use super::broker::{OwnKafka, PARTITIONS};
use super::{deliveries, is_done, order, publisher};
use crate::broker_faults::Broker as _;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn publisher_answers_before_the_engine_ends_the_call() {
    let Some(mut broker) = OwnKafka::new().await else { return };
    broker.start().await;
    let store = MemoryStore::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(publisher(&broker.hosts(), &broker.topic)));
    let outbox = Outbox::from_config(store.clone(), Config::relay(), routes).start().expect("start");
    let writer = store.writer(&outbox);
    let write = async |key: &str| {
        let mut tx = writer.begin().await.expect("begin");
        tx.write(order(key)).await.expect("write");
        tx.commit().await.expect("commit");
    };
    write("before").await;
    outbox.idle().await.expect("idle");

    broker.suspend();
    write("held").await;
    let error = || store.rows().into_iter().find_map(|row| row.last_error);
    wait_for_server("the held event has an answer", async || error().is_some()).await;
    let text = error().expect("an answer");
    broker.resume();
    assert!(text.starts_with("Kafka: "), "the engine was first: {text}");

    wait_for_server("it is done", async || store.rows().iter().all(|row| row.done_at.is_some())).await;
    assert!(store.rows().iter().all(|row| row.attempts == 0));
    outbox.shutdown().await;
}

/// The purge is inside the timeout, and so are all events for which the queue had no room.
#[tokio::test(flavor = "multi_thread")]
async fn call_ends_within_the_timeout_though_the_queue_is_full() {
    const PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("events", PARTITIONS, 1).expect("a topic");
    let kafka = KafkaPublisher::builder(cluster.bootstrap_servers()).topic("events").timeout(PUBLISH_TIMEOUT);
    let kafka = kafka.set("queue.buffering.max.messages", "10").build().expect("good settings");
    assert!(kafka.deliver(&deliveries([order("o-1")])).await.iter().all(is_done));

    cluster.broker_round_trip_time(1, Duration::from_secs(60)).expect("a slow broker");
    let events: Vec<_> = (0..1_000).map(|n| order(&format!("late-{n}"))).collect();
    let started = Instant::now();
    let outcomes = kafka.deliver(&deliveries(events)).await;
    let took = started.elapsed();
    println!("no acknowledgement: {took:?}");
    assert!(took < PUBLISH_TIMEOUT + Duration::from_secs(2), "{took:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unreachable(_))), "{outcomes:?}");
}
