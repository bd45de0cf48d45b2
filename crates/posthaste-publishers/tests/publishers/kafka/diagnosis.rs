//! What a doctor finds about Kafka.

use posthaste::admin::Severity;
use posthaste_testkit::server::wait_for_server;

use super::broker::{OwnKafka, is_skipped, shared, try_create, unique};
use super::{shared_topic, url};
use crate::delivery::codes;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn topic_on_one_broker_is_found() {
    if is_skipped() {
        return;
    }
    let topic = shared_topic("one-replica").await;
    let expected = [("kafka-one-replica", Severity::Warning)];
    assert_eq!(codes(&url(&shared(), &topic)).await, expected);
    assert_eq!(codes(&url(&shared(), "{event_type}")).await, [], "nobody knows the topics");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn topic_that_is_not_there_is_found_and_stays_so() {
    if is_skipped() {
        return;
    }
    let topic = unique("nowhere");
    for _ in 0..2 {
        assert_eq!(codes(&url(&shared(), &topic)).await, [("kafka-no-topic", Severity::Warning)]);
    }
    let strict = format!("kafka://{}/{topic}?allow.auto.create.topics=false", shared());
    assert_eq!(codes(&strict).await, [("destination-unreachable", Severity::Problem)], "it need not be made");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn topic_that_one_of_two_brokers_may_acknowledge_is_found() {
    let Some(mut kafka) = OwnKafka::new().await else { return };
    let mut peer = kafka.peer();
    kafka.start().await;
    peer.listen().await;
    let hosts = kafka.hosts();
    wait_for_server("both brokers are in the cluster", async || {
        try_create(&hosts, "weak", 2, &[("min.insync.replicas", "1")]).await.is_ok()
    })
    .await;
    try_create(&hosts, "strong", 2, &[("min.insync.replicas", "2")]).await.expect("a topic");
    wait_for_server("the brokers know both topics", async || {
        let found = (codes(&url(&hosts, "weak")).await, codes(&url(&hosts, "strong")).await);
        found == (vec![("kafka-min-insync", Severity::Warning)], vec![])
    })
    .await;
}
