//! The allow list of topics: an event's topic is the key of its stream, and could be any key of the server.

use posthaste::Destination;
use posthaste_publishers::redis_streams::RedisStreamPublisher;
use posthaste_testkit::server::RedisServer;

use super::server::{received, url};
use crate::delivery::{assert_all_delivered, deliver_one, event_to, kinds, order, publisher, text_of};

async fn refusal(publisher: &impl Destination, topic: &str) -> String {
    text_of("unsendable", &deliver_one(publisher, event_to(topic)).await)
}

/// If such a key became a stream, every script of an outbox on the same server would fail.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn event_cannot_write_to_a_key_of_an_outbox() {
    let server = RedisServer::durable(&[]).started().await;
    let publisher = publisher(&url(&server));
    for key in ["{outbox:0}:dead", "{outbox:0}:entries", "{outbox:3}:parked"] {
        let why = refusal(&publisher, key).await;
        assert!(why.contains(key) && why.contains("another topic"), "{why}");
    }
    let outcomes = publisher.deliver(&[order(), event_to("{outbox:0}:dead"), order()]).await;
    assert_eq!(kinds(&outcomes), ["done", "unsendable", "done"]);
    assert_all_delivered(&publisher, &[event_to("{outbox:0}:ticket:17")]).await;
    assert_eq!(received(server.port(), 3).await.len(), 3, "the refused events created no key");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn topics_of_events_can_be_restricted() {
    let server = RedisServer::durable(&[]).started().await;
    let by_url = RedisStreamPublisher::from_url(&format!("{}&topics=shop:*,audit", url(&server)));
    let building = RedisStreamPublisher::builder(format!("127.0.0.1:{}", server.port())).stream("orders");
    let by_builder = building.topics(["shop:*", "audit"]).build();
    for publisher in [by_url, by_builder] {
        let publisher = publisher.expect("good settings");
        let why = refusal(&publisher, "sessions").await;
        assert!(why.contains("sessions") && why.contains("`topics`"), "{why}");
        assert_all_delivered(&publisher, &[event_to("shop:orders"), event_to("audit"), order()]).await;
    }
    assert_eq!(received(server.port(), 6).await.len(), 6);
}

#[test]
fn configured_stream_cannot_be_a_key_of_an_outbox() {
    let publisher_of = RedisStreamPublisher::from_url("redis-stream://localhost/0?stream={{outbox:0}}:dead");
    let error = publisher_of.map(|_| ()).expect_err("a key of an outbox").to_string();
    assert!(error.contains("key of an outbox"), "{error}");
}
