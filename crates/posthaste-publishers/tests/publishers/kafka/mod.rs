//! Apache Kafka: the conformance suite, the common broker faults, and cases that only Kafka has.

mod broker;
mod diagnosis;
mod order;
mod polling_end_to_end;
mod refusals;
#[cfg(feature = "kafka-tls")]
mod security;
mod timeout;

use std::collections::HashSet;
use std::process::Command;

use async_trait::async_trait;
use posthaste::conformance::destination::Received;
use posthaste::{Delivery, Event};
use posthaste_publishers::Format;
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::log::Log;
use posthaste_testkit::server::OwnServer;

use crate::broker_faults::{Broker, broker_tests};
use crate::delivery::{assert_all_delivered, changed, event_to, order, publisher};
use broker::{
    OwnKafka, count_partitions, create_topic, is_mock, is_skipped, read, read_at_least, shared, unique,
};

/// The log of this project's crates, at every level and from all threads, including those of librdkafka.
fn log_of_posthaste() -> Log {
    Log::of_process_where(|metadata| metadata.target().starts_with("posthaste"))
}

/// A topic on the shared or on a private broker.
struct Kafka {
    hosts: String,
    topic: String,
    /// `None` on the shared broker.
    own: Option<OwnKafka>,
}

#[async_trait]
impl Broker for Kafka {
    async fn shared() -> Self {
        let topic = unique("suite");
        create_topic(&shared(), &topic, &[("max.message.bytes", "2000000")]).await;
        Self { hosts: shared(), topic, own: None }
    }

    async fn own() -> Self {
        let own = OwnKafka::new().await.expect("a Kafka");
        Self { hosts: own.hosts(), topic: own.topic.clone(), own: Some(own) }
    }

    fn has_no_private_server() -> bool {
        is_skipped()
    }

    fn url(&self) -> String {
        url(&self.hosts, &self.topic)
    }

    fn server(&mut self) -> &mut OwnServer {
        &mut self.own.as_mut().expect("a private broker").server
    }

    async fn start(&mut self) {
        self.own.as_mut().expect("a private broker").start().await;
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        let seen = read_at_least(&self.hosts, &self.topic, n).await;
        seen.into_iter().map(Received::from).collect()
    }

    fn refused() -> Delivery {
        event_to("nowhere")
    }
}

broker_tests!(Kafka, "needs Kafka: cargo xtask test");

/// The URL of a publisher to this topic.
fn url(hosts: &str, topic: &str) -> String {
    // The tests' Kafka does not create topics automatically. A mock does, unless this setting is off.
    let settings = if is_mock() { "?allow.auto.create.topics=false" } else { "" };
    format!("kafka://{hosts}/{topic}{settings}")
}

/// A new topic on the shared broker.
async fn shared_topic(name: &str) -> String {
    let topic = unique(name);
    create_topic(&shared(), &topic, &[]).await;
    topic
}

/// An order with this key.
fn order_of(key: &str) -> Delivery {
    changed(&order(), |parts| parts.aggregate_id = Some(key.into()))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn kcat_reads_key_headers_and_payload() {
    let topic = shared_topic("kcat").await;
    let event = order();
    let kafka = KafkaPublisher::builder(shared()).topic(&topic).format(Format::CloudEvents).build();
    assert_all_delivered(&kafka.expect("good settings"), std::slice::from_ref(&event)).await;

    let kcat = Command::new(std::env::var("POSTHASTE_TEST_KCAT_BIN").unwrap_or_else(|_| "kcat".to_owned()))
        .args(["-C", "-q", "-e", "-b", &shared(), "-t", &topic, "-o", "beginning", "-f", "%k|%h|%s"])
        .output()
        .expect("kcat runs");
    let text = String::from_utf8(kcat.stdout).expect("text");
    let [key, headers, payload] = text.splitn(3, '|').collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!((key, payload), ("o-17", r#"{"total": 42.10}"#));
    let headers: HashSet<&str> = headers.split(',').collect();
    let id = format!("ce_id={}", event.id());
    for header in ["content-type=application/json", "ce_type=OrderPlaced", "ce_specversion=1.0", &id] {
        assert!(headers.contains(header), "{header} in {headers:?}");
    }
}

/// The hashes are those of the tests of murmur2 in Apache Kafka, which Java clients use.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn keys_go_to_the_partitions_of_java_clients() {
    let topic = shared_topic("murmur").await;
    let hashes: [(&str, i32); 5] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ];
    assert_all_delivered(&publisher(&url(&shared(), &topic)), &hashes.map(|(key, _)| order_of(key))).await;
    let partitions = count_partitions(&shared(), &topic).await;
    for message in read(&shared(), &topic).await {
        let key = message.key.as_deref().expect("a key");
        let hash = hashes.iter().find(|(other, _)| *other == key).expect("one of ours").1;
        assert_eq!(message.partition, (hash & 0x7fff_ffff) % partitions, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn empty_payload_is_not_a_tombstone_and_an_event_without_aggregate_has_no_key() {
    let topic = shared_topic("empty").await;
    let empty = Event::bytes("Empty", "text/plain", "").expect("a good event");
    assert_all_delivered(&publisher(&url(&shared(), &topic)), &[Delivery::first(empty)]).await;
    let seen = read(&shared(), &topic).await.remove(0);
    assert_eq!((seen.key, seen.payload), (None, Some(Vec::new())));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn debezium_format_uses_the_topics_of_the_router() {
    let aggregate = unique("Order");
    let topic = format!("outbox.event.{aggregate}");
    create_topic(&shared(), &topic, &[]).await;
    let event = changed(&order(), |parts| parts.aggregate_type = aggregate.as_str().into());
    let debezium = publisher(&format!("kafka://{}?format=debezium", shared()));
    assert_all_delivered(&debezium, std::slice::from_ref(&event)).await;
    let seen = read(&shared(), &topic).await.remove(0);
    assert_eq!(seen.header("id"), Some(event.id().as_str()));
    assert_eq!(seen.header("eventType"), Some("OrderPlaced"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn delivery_waits_while_the_producer_queue_is_full() {
    let topic = shared_topic("full").await;
    let kafka = KafkaPublisher::builder(shared()).topic(&topic).set("queue.buffering.max.messages", "10");
    let batch: Vec<Delivery> = (0..1_000).map(|n| order_of(&format!("o-{n}"))).collect();
    assert_all_delivered(&kafka.build().expect("good settings"), &batch).await;
    assert_eq!(read(&shared(), &topic).await.len(), 1_000);
}
