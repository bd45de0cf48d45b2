//! Findings about Kafka topics.

use posthaste::admin::Severity;
use posthaste_testkit::server::wait_for_server;

use super::broker::{OwnKafka, is_skipped, shared, try_create, unique};
use super::{shared_topic, url};
use crate::delivery::codes;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn topic_with_one_replica_is_reported() {
    if is_skipped() {
        return;
    }
    let topic = shared_topic("one-replica").await;
    let expected = [("kafka-one-replica", Severity::Warning)];
    assert_eq!(codes(&url(&shared(), &topic)).await, expected);
    assert_eq!(codes(&url(&shared(), "{event_type}")).await, [], "the topics are unknown");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn missing_topic_is_reported_and_not_created() {
    if is_skipped() {
        return;
    }
    let topic = unique("nowhere");
    for _ in 0..2 {
        assert_eq!(codes(&url(&shared(), &topic)).await, [("kafka-no-topic", Severity::Warning)]);
    }
    let strict = format!("kafka://{}/{topic}?allow.auto.create.topics=false", shared());
    assert_eq!(
        codes(&strict).await,
        [("destination-unreachable", Severity::Problem)],
        "without automatic creation the topic is missing"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn topic_with_min_insync_replicas_of_one_is_reported() {
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
