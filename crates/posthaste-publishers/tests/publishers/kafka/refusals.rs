//! Refused events and unreachable brokers: each event gets the right outcome, and quickly.

use std::time::{Duration, Instant};

use posthaste::{Delivery, Destination as _, Event, Outcome};
use posthaste_testkit::process::free_port;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::broker::{PARTITIONS, create_topic, is_skipped, mock, read, shared, unique};
use super::{order_of, shared_topic, url};
use crate::broker_faults::assert_unreachable;
use crate::delivery::{assert_delivered, deliver_one, event_to, kinds, of_size, order, publisher, text_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn fifty_unknown_topics_are_refused_within_seconds_and_delay_no_other_event() {
    let topic = shared_topic("known").await;
    let kafka = publisher(&url(&shared(), &topic));
    let unknown = (0..50).map(|n| event_to(&format!("{topic}-unknown-{n}")));
    let batch: Vec<Delivery> = unknown.chain([order()]).collect();
    let started = Instant::now();
    let mut outcomes = kafka.deliver(&batch).await;
    let took = started.elapsed();
    println!("unknown topics: {took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(outcomes.pop().is_some_and(|last| last.is_done()));
    for outcome in outcomes {
        let text = text_of("retry", &outcome);
        assert!(text.ends_with("does not exist: create it"), "{text}");
    }

    // Once the topic exists, its events are accepted.
    let late = format!("{topic}-unknown-7");
    create_topic(&shared(), &late, &[]).await;
    posthaste_testkit::server::wait_for_server("the topic is known", async || {
        deliver_one(&kafka, event_to(&late)).await.is_done()
    })
    .await;
    assert!(!read(&shared(), &late).await.is_empty());
}

// F30
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn event_too_large_for_the_topic_is_dead_and_its_neighbours_are_delivered() {
    if is_skipped() {
        return;
    }
    let topic = unique("small");
    create_topic(&shared(), &topic, &[("max.message.bytes", "20000")]).await;
    let kafka = publisher(&url(&shared(), &topic));
    // Together they are too large for one request, and all but one are small.
    let mut batch: Vec<Delivery> = (0..200).map(|_| of_size(1_000)).collect();
    batch[50] = of_size(30_000);
    let mut outcomes = kafka.deliver(&batch).await;
    let reason = text_of("dead", &outcomes.remove(50));
    assert!(reason.contains("bytes: raise its max.message.bytes"), "{reason}");
    assert_eq!(kinds(&outcomes), ["done"; 199], "{outcomes:?}");
    assert_eq!(read(&shared(), &topic).await.len(), 199);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn compacted_topic_accepts_only_events_with_a_key() {
    if is_skipped() {
        return;
    }
    let topic = unique("compacted");
    create_topic(&shared(), &topic, &[("cleanup.policy", "compact")]).await;
    let kafka = publisher(&url(&shared(), &topic));
    let without = Delivery::first(Event::json("Made", &1).expect("a good event"));
    let outcomes = kafka.deliver(&[order(), without, order()]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done"]);
    assert!(text_of("retry", &outcomes[1]).contains("needs an aggregate id"), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_brokers_are_unreachable_within_seconds() {
    let kafka = publisher(&url(&format!("127.0.0.1:{},127.0.0.1:{}", free_port(), free_port()), "orders"));
    for _ in 0..3 {
        let started = Instant::now();
        let outcomes = kafka.deliver(&[order(), order()]).await;
        let took = started.elapsed();
        println!("no broker: {took:?}");
        // The call takes three seconds, or a little longer on a busy machine. A delivery may take nine.
        assert!(took < Duration::from_secs(8), "{took:?}");
        for outcome in outcomes {
            let text = text_of("no connection", &outcome);
            assert!(text.contains("refused"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_without_an_address_is_unreachable() {
    let kafka = publisher(&url("no-such-host.invalid:9092", "orders"));
    assert!(matches!(deliver_one(&kafka, order()).await, Outcome::Unreachable(_)));
    let text = assert_unreachable(
        "kafka://me:s3ntinel-PW-9f@no-such-host.invalid:9092/orders?security.protocol=SASL_PLAINTEXT",
    )
    .await;
    assert!(text.contains("no-such-host.invalid"), "{text}");
}

/// A mock creates every topic that is looked up, unless the setting is off.
#[tokio::test(flavor = "multi_thread")]
async fn check_creates_no_topic_and_fails_if_the_topic_is_missing() {
    let cluster = mock(&[]);
    let hosts = cluster.bootstrap_servers();
    let url = |settings: &str| format!("kafka://{hosts}/orders{settings}");
    let check = async |url: String| publisher(&url).check().await.map_err(|why| why.to_string());
    assert_eq!(check(url("")).await, Ok(()), "the first event may create it");
    let missing = Err("Kafka: topic orders does not exist: create it".to_owned());
    assert_eq!(check(url("?allow.auto.create.topics=false")).await, missing, "no check has created it");
    cluster.create_topic("orders", PARTITIONS, 1).expect("a topic");
    assert_eq!(check(url("?allow.auto.create.topics=false")).await, Ok(()));
}

/// Events that were reported as unreachable must not be sent later.
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_event_is_not_sent_later() {
    let cluster = mock(&["events"]);
    let kafka = publisher(&url(&cluster.bootstrap_servers(), "events"));
    assert_delivered(&kafka).await;
    cluster.broker_down(1).expect("down");
    let outcomes = kafka.deliver(&[order_of("lost-1"), order_of("lost-2")]).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unreachable(_))), "{outcomes:?}");
    cluster.broker_up(1).expect("up");
    posthaste_testkit::server::wait_for_server("it delivers again", async || {
        deliver_one(&kafka, order()).await.is_done()
    })
    .await;
    let keys: Vec<_> =
        read(&cluster.bootstrap_servers(), "events").await.into_iter().map(|m| m.key).collect();
    assert!(keys.iter().flatten().all(|key| !key.starts_with("lost")), "{keys:?}");
}

/// After a fatal error, the next delivery uses a new producer.
#[tokio::test(flavor = "multi_thread")]
async fn producer_is_replaced_after_a_fatal_error() {
    let cluster = mock(&["events"]);
    let kafka = publisher(&url(&cluster.bootstrap_servers(), "events"));
    cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED],
    );
    let text = text_of("no connection", &deliver_one(&kafka, order()).await);
    assert!(text.contains("the producer failed"), "{text}");
    assert_delivered(&kafka).await;
}

/// The quota is the user's; the event is not the cause.
#[tokio::test(flavor = "multi_thread")]
async fn exceeded_quota_spends_no_attempt() {
    let cluster = mock(&["events"]);
    let kafka = publisher(&url(&cluster.bootstrap_servers(), "events"));
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED],
    );
    let text = text_of("busy", &deliver_one(&kafka, order()).await);
    assert!(text.starts_with("Kafka: a quota is used up: wait, or raise it"), "{text}");
    assert_delivered(&kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_topic_costs_an_attempt_and_says_what_to_grant() {
    let cluster = mock(&["events"]);
    let kafka = publisher(&format!("kafka://{}/events", cluster.bootstrap_servers()));
    cluster.topic_error("events", RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).expect("set");
    let text = text_of("retry", &deliver_one(&kafka, order()).await);
    assert!(text.ends_with("grant WRITE on it"), "{text}");
}
