//! What brokers refuse, and what is out of reach: the right answer, soon, and for the right events.

use std::time::{Duration, Instant};

use posthaste::{Destination as _, Event, Outcome};
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::process::free_port;
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::broker::{create_topic, is_skipped, read, shared, unique};
use super::{deliveries, is_done, of_size, order, publisher};
use crate::broker_faults::is_out_of_reach;

fn event_to(topic: &str) -> Event {
    Event::builder("Made").topic(topic).json_text("1").build().expect("a good event")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn dozens_of_unknown_topics_are_refused_within_seconds_and_hold_up_nobody() {
    let topic = unique("known");
    create_topic(&shared(), &topic, &[]).await;
    let kafka = publisher(&shared(), &topic);
    let unknown = (0..50).map(|n| event_to(&format!("{topic}-unknown-{n}")));
    let events: Vec<Event> = unknown.chain([order("o-1")]).collect();
    let started = Instant::now();
    let mut outcomes = kafka.deliver(&deliveries(events)).await;
    let took = started.elapsed();
    println!("unknown topics: {took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(outcomes.pop().is_some_and(|last| is_done(&last)));
    for outcome in outcomes {
        let Outcome::Retry(error) = outcome else { panic!("{outcome:?}") };
        assert!(error.to_string().ends_with("does not exist: create it"), "{error}");
    }

    // Once it is there its events are taken.
    let late = format!("{topic}-unknown-7");
    create_topic(&shared(), &late, &[]).await;
    posthaste_testkit::server::wait_for_server("the topic is seen", async || {
        kafka.deliver(&deliveries([event_to(&late)])).await.iter().all(is_done)
    })
    .await;
    assert!(!read(&shared(), &late).await.is_empty());
}

// F30
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn event_that_the_topic_finds_too_large_is_dead_and_its_neighbours_are_not() {
    if is_skipped() {
        return;
    }
    let topic = unique("small");
    create_topic(&shared(), &topic, &[("max.message.bytes", "20000")]).await;
    let kafka = publisher(&shared(), &topic);
    // Together they are too large for a request, and each but one is small.
    let mut events: Vec<Event> = (0..200).map(|_| of_size(1_000)).collect();
    events[50] = of_size(30_000);
    let outcomes = kafka.deliver(&deliveries(events)).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Outcome::Dead(reason) if n == 50 => {
                assert!(reason.contains("bytes: raise its max.message.bytes"), "{reason}");
            }
            outcome => assert!(n != 50 && is_done(outcome), "{n}: {outcome:?}"),
        }
    }
    assert_eq!(read(&shared(), &topic).await.len(), 199);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn compacted_topic_takes_events_with_a_key_only() {
    if is_skipped() {
        return;
    }
    let topic = unique("compacted");
    create_topic(&shared(), &topic, &[("cleanup.policy", "compact")]).await;
    let kafka = publisher(&shared(), &topic);
    let without = Event::json("Made", &1).expect("a good event");
    let outcomes = kafka.deliver(&deliveries([order("o-1"), without, order("o-2")])).await;
    let [Outcome::Done { .. }, Outcome::Retry(error), Outcome::Done { .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert!(error.to_string().contains("needs an aggregate id"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_are_not_there_are_found_out_within_three_seconds() {
    let kafka = publisher(&format!("127.0.0.1:{},127.0.0.1:{}", free_port(), free_port()), "orders");
    for _ in 0..3 {
        let started = Instant::now();
        let outcomes = kafka.deliver(&deliveries([order("o-1"), order("o-2")])).await;
        let took = started.elapsed();
        println!("no broker: {took:?}");
        // It takes three seconds, and a busy machine some more; nine are what a delivery has.
        assert!(took < Duration::from_secs(8), "{took:?}");
        for outcome in outcomes {
            let Outcome::Unreachable(why) = outcome else { panic!("{outcome:?}") };
            assert!(why.connection_failed);
            assert!(why.error.to_string().contains("refused"), "{}", why.error);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_without_an_address_is_out_of_reach() {
    let outcomes =
        publisher("no-such-host.invalid:9092", "orders").deliver(&deliveries([order("o-1")])).await;
    assert!(matches!(outcomes[..], [Outcome::Unreachable(_)]), "{outcomes:?}");
    let text = is_out_of_reach(
        "kafka://me:s3ntinel-PW-9f@no-such-host.invalid:9092/orders?security.protocol=SASL_PLAINTEXT",
    )
    .await;
    assert!(text.contains("no-such-host.invalid"), "{text}");
}

/// A mock makes every topic that it is asked for, unless it is asked not to.
#[tokio::test(flavor = "multi_thread")]
async fn check_makes_no_topic_and_misses_one_that_nobody_makes() {
    let cluster = MockCluster::new(1).expect("a cluster");
    let hosts = cluster.bootstrap_servers();
    let url = |settings: &str| format!("kafka://{hosts}/orders{settings}");
    let check = async |url: String| {
        let publisher = posthaste_publishers::publisher(&url).expect("a good URL");
        publisher.check().await.map_err(|why| why.to_string())
    };
    assert_eq!(check(url("")).await, Ok(()), "the first event may make it");
    let missing = Err("Kafka: topic orders does not exist: create it".to_owned());
    assert_eq!(check(url("?allow.auto.create.topics=false")).await, missing, "no check has made it");
    cluster.create_topic("orders", super::broker::PARTITIONS, 1).expect("a topic");
    assert_eq!(check(url("?allow.auto.create.topics=false")).await, Ok(()));
}

/// What was answered with unreachable does not leave later.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaves_after_it_was_said_to_be_unreachable() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("events", super::broker::PARTITIONS, 1).expect("a topic");
    let kafka = publisher(&cluster.bootstrap_servers(), "events");
    let outcomes = kafka.deliver(&deliveries([order("o-1")])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
    cluster.broker_down(1).expect("down");
    let outcomes = kafka.deliver(&deliveries([order("lost-1"), order("lost-2")])).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unreachable(_))), "{outcomes:?}");
    cluster.broker_up(1).expect("up");
    posthaste_testkit::server::wait_for_server("it delivers again", async || {
        kafka.deliver(&deliveries([order("o-2")])).await.iter().all(is_done)
    })
    .await;
    let keys: Vec<_> =
        read(&cluster.bootstrap_servers(), "events").await.into_iter().map(|m| m.key).collect();
    assert!(keys.iter().flatten().all(|key| !key.starts_with("lost")), "{keys:?}");
}

/// A producer that failed for good is followed by another.
#[tokio::test(flavor = "multi_thread")]
async fn producer_that_failed_for_good_is_replaced() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("events", super::broker::PARTITIONS, 1).expect("a topic");
    let kafka = publisher(&cluster.bootstrap_servers(), "events");
    cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED],
    );
    let outcomes = kafka.deliver(&deliveries([order("o-1")])).await;
    let [Outcome::Unreachable(why)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(why.error.to_string().contains("the producer failed"), "{}", why.error);
    let outcomes = kafka.deliver(&deliveries([order("o-2")])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
}

/// It is about the user's quota and not about the event.
#[tokio::test(flavor = "multi_thread")]
async fn quota_that_is_used_up_spends_no_attempt() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("events", super::broker::PARTITIONS, 1).expect("a topic");
    let kafka = publisher(&cluster.bootstrap_servers(), "events");
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED],
    );
    let outcomes = kafka.deliver(&deliveries([order("o-1")])).await;
    let [Outcome::Busy(busy)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(busy.error.to_string().starts_with("Kafka: a quota is used up: wait, or raise it"), "{busy:?}");
    let outcomes = kafka.deliver(&deliveries([order("o-1")])).await;
    assert!(outcomes.iter().all(is_done), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_topic_costs_an_attempt_and_says_what_to_grant() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("events", super::broker::PARTITIONS, 1).expect("a topic");
    let kafka =
        KafkaPublisher::builder(cluster.bootstrap_servers()).topic("events").build().expect("settings");
    cluster.topic_error("events", RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).expect("set");
    let outcomes = kafka.deliver(&deliveries([order("o-1")])).await;
    let [Outcome::Retry(error)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(error.to_string().ends_with("grant WRITE on it"), "{error}");
}
