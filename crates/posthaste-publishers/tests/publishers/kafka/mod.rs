//! Apache Kafka: the suite, and what only Kafka can get wrong.

mod broker;
mod diagnosis;
mod document_004;
mod order;
mod refusals;
#[cfg(feature = "kafka-tls")]
mod security;
mod timeout;

use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event, EventParts, Outcome};
use posthaste_publishers::Format;
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::log::Log;
use tokio::sync::Mutex;

use crate::broker_faults::{self, Broker as _};
use broker::{OwnKafka, count_partitions, create_topic, read, read_at_least, shared, unique};

/// What we log, at every level, by whatever thread: some of them are the library's.
fn log_of_posthaste() -> Log {
    Log::of_process_where(|metadata| metadata.target().starts_with("posthaste"))
}

/// A topic on the shared broker, or on one of its own once that was started.
struct Kafka {
    topic: String,
    own: RestartableBroker,
}

struct RestartableBroker {
    topic: String,
    kafka: Mutex<Option<OwnKafka>>,
    hosts: std::sync::OnceLock<String>,
    is_used: AtomicBool,
}

impl Kafka {
    async fn new() -> Self {
        let topic = unique("suite");
        create_topic(&shared(), &topic, &[("max.message.bytes", "2000000")]).await;
        let own = RestartableBroker {
            topic: topic.clone(),
            kafka: Mutex::default(),
            hosts: std::sync::OnceLock::new(),
            is_used: AtomicBool::new(false),
        };
        Self { topic, own }
    }

    fn hosts(&self) -> String {
        if self.own.is_used.load(Ordering::SeqCst) {
            return self.own.hosts.get().expect("it was started").clone();
        }
        shared()
    }
}

#[async_trait]
impl Server for RestartableBroker {
    async fn start(&self) {
        let mut kafka = self.kafka.lock().await;
        if kafka.is_none() {
            let mut own = OwnKafka::new().await.expect("a Kafka, or else there is no server");
            own.topic.clone_from(&self.topic);
            self.hosts.set(own.hosts()).expect("once");
            *kafka = Some(own);
            self.is_used.store(true, Ordering::SeqCst);
        }
        kafka.as_mut().expect("it is there").start().await;
    }

    async fn stop(&self) {
        self.kafka.lock().await.as_mut().expect("it was started").kill();
    }
}

fn publisher(hosts: &str, topic: &str) -> KafkaPublisher {
    let kafka = KafkaPublisher::builder(hosts).topic(topic);
    // The tests' Kafka makes no topic by itself. A mock does, unless it is asked not to.
    let kafka = if broker::is_mock() { kafka.set("allow.auto.create.topics", "false") } else { kafka };
    kafka.build().expect("good settings")
}

/// An event with so many bytes, as a row may hold it.
fn of_size(bytes: usize) -> Event {
    let event = Event::builder("Large").json_text("1").build().expect("a good event");
    Event::from_parts(EventParts { payload: "1".repeat(bytes).into(), ..event.to_parts() })
}

fn deliveries(events: impl IntoIterator<Item = Event>) -> Vec<Delivery> {
    events.into_iter().map(Delivery::first).collect()
}

fn is_done(outcome: &Outcome) -> bool {
    outcome.is_done()
}

#[async_trait]
impl DestinationHarness for Kafka {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::new(publisher(&self.hosts(), &self.topic))
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        let seen = read_at_least(&self.hosts(), &self.topic, n).await;
        seen.into_iter().map(Received::from).collect()
    }

    fn refused(&self) -> Option<Event> {
        Event::builder("Lost").topic("nowhere").json_text("1").build().ok()
    }

    fn too_large(&self) -> Option<Event> {
        // A mock takes every size.
        if broker::is_skipped() { None } else { Some(of_size(3_000_000)) }
    }

    fn server(&self) -> Option<&dyn Server> {
        if broker::is_skipped() { None } else { Some(&self.own) }
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {}
}

posthaste::destination_conformance!(Kafka::new().await, #[ignore = "needs Kafka: cargo xtask test"]);

// T-BROKERDOWN
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn broker_that_is_killed_for_half_a_minute_costs_no_event_and_no_attempt() {
    let Some(mut kafka) = OwnKafka::new().await else { return };
    broker_faults::broker_is_killed_for_half_a_minute(&mut kafka).await;
}

// T-SLOW
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn broker_that_answers_late_gets_nothing_twice() {
    let Some(mut kafka) = OwnKafka::new().await else { return };
    broker_faults::broker_answers_later_than_the_lease_ends(&mut kafka).await;
}

// T-TERM, F12
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn process_that_stops_with_a_thousand_in_flight_loses_none() {
    let Some(mut kafka) = OwnKafka::new().await else { return };
    broker_faults::process_is_asked_to_stop_with_a_thousand_in_flight(&mut kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn check_says_whether_the_broker_is_there() {
    let Some(mut kafka) = OwnKafka::new().await else { return };
    broker_faults::broker_is_checked(&mut kafka).await;
}

fn order(id: &str) -> Event {
    let event = Event::builder("OrderPlaced").aggregate("Order", id).tenant_id("acme");
    event.json_text(r#"{"total": 42.10}"#).build().expect("a good event")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn kcat_reads_key_headers_and_payload() {
    let topic = unique("kcat");
    create_topic(&shared(), &topic, &[]).await;
    let event = order("o-17");
    let kafka = KafkaPublisher::builder(shared()).topic(&topic).format(Format::CloudEvents).build();
    let outcomes = kafka.expect("good settings").deliver(&deliveries([event.clone()])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");

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

/// The partitions that Java's clients choose, from the tests of Apache Kafka's own murmur2.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn keys_go_to_the_partitions_of_java_clients() {
    let topic = unique("murmur");
    create_topic(&shared(), &topic, &[]).await;
    let hashes: [(&str, i32); 5] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ];
    let batch = deliveries(hashes.map(|(key, _)| order(key)));
    let outcomes = publisher(&shared(), &topic).deliver(&batch).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    let partitions = count_partitions(&shared(), &topic).await;
    for message in read(&shared(), &topic).await {
        let key = message.key.as_deref().expect("a key");
        let hash = hashes.iter().find(|(other, _)| *other == key).expect("one of ours").1;
        assert_eq!(message.partition, (hash & 0x7fff_ffff) % partitions, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn empty_payload_is_no_tombstone_and_an_event_without_aggregate_has_no_key() {
    let topic = unique("empty");
    create_topic(&shared(), &topic, &[]).await;
    let empty = Event::bytes("Empty", "text/plain", "").expect("a good event");
    let outcomes = publisher(&shared(), &topic).deliver(&deliveries([empty])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    let seen = read(&shared(), &topic).await.remove(0);
    assert_eq!((seen.key, seen.payload), (None, Some(Vec::new())));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn debezium_goes_to_its_own_topics() {
    let aggregate = unique("Order");
    let topic = format!("outbox.event.{aggregate}");
    create_topic(&shared(), &topic, &[]).await;
    let event = Event::builder("OrderPlaced").aggregate(&aggregate, "o-1").json_text("1").build();
    let event = event.expect("a good event");
    let url = format!("kafka://{}?format=debezium", shared());
    let kafka = posthaste_publishers::publisher(&url).expect("a good URL");
    let outcomes = kafka.deliver(&deliveries([event.clone()])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    let seen = read(&shared(), &topic).await.remove(0);
    assert_eq!(seen.header("id"), Some(event.id().as_str()));
    assert_eq!(seen.header("eventType"), Some("OrderPlaced"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn full_queue_is_waited_for() {
    let topic = unique("full");
    create_topic(&shared(), &topic, &[]).await;
    let kafka = KafkaPublisher::builder(shared()).topic(&topic).set("queue.buffering.max.messages", "10");
    let events: Vec<Event> = (0..1_000).map(|n| order(&format!("o-{n}"))).collect();
    let outcomes = kafka.build().expect("good settings").deliver(&deliveries(events)).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    assert_eq!(read(&shared(), &topic).await.len(), 1_000);
}
