//! Timeouts: a call must end by the publisher's timeout, before the route's, so that each event has its own
//! outcome.

use std::time::{Duration, Instant};

use posthaste::{Config, Destination as _, MemoryStore, MemoryWriter, Outbox, Outcome, Route, Routes};
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::server::wait_for_server;

use super::broker::{OwnKafka, mock};
use super::{order_of, url};
use crate::delivery::{assert_all_delivered, order, publisher};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn publisher_returns_before_the_engine_ends_the_call() {
    let Some(mut broker) = OwnKafka::new().await else { return };
    broker.start().await;
    let store = MemoryStore::new();
    let routes =
        Routes::new().add(Route::fallback().deliver_to(publisher(&url(&broker.hosts(), &broker.topic))));
    let outbox = Outbox::from_config(store.clone(), Config::relay(), routes).start().expect("start");
    let writer = MemoryWriter::new(&store, &outbox);
    let write = async || {
        let mut tx = writer.begin().await.expect("begin");
        tx.write(order().event).await.expect("write");
        tx.commit().await.expect("commit");
    };
    write().await;
    outbox.idle().await.expect("idle");

    broker.server.suspend();
    write().await;
    let error = || store.rows().into_iter().find_map(|row| row.last_error);
    wait_for_server("the event has an outcome", async || error().is_some()).await;
    let text = error().expect("an error");
    broker.server.resume();
    assert!(text.starts_with("Kafka: "), "the engine ended the call: {text}");

    wait_for_server("it is done", async || store.rows().iter().all(|row| row.done_at.is_some())).await;
    assert!(store.rows().iter().all(|row| row.attempts == 0));
    outbox.shutdown().await;
}

/// The timeout includes the purge, and all events for which the producer queue had no room.
#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_full_producer_queue_ends_within_the_timeout() {
    const PUBLISH_TIMEOUT: Duration = Duration::from_secs(3);
    let cluster = mock(&["events"]);
    let kafka = KafkaPublisher::builder(cluster.bootstrap_servers()).topic("events").timeout(PUBLISH_TIMEOUT);
    let kafka = kafka.set("queue.buffering.max.messages", "10").build().expect("good settings");
    assert_all_delivered(&kafka, &[order()]).await;

    cluster.broker_round_trip_time(1, Duration::from_secs(60)).expect("a slow broker");
    let late: Vec<_> = (0..1_000).map(|n| order_of(&format!("late-{n}"))).collect();
    let started = Instant::now();
    let outcomes = kafka.deliver(&late).await;
    let took = started.elapsed();
    println!("no acknowledgement: {took:?}");
    assert!(took < PUBLISH_TIMEOUT + Duration::from_secs(2), "{took:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unreachable(_))), "{outcomes:?}");
}
