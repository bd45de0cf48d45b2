//! An event names its stream, and any key of the server could be one.

use posthaste::{Delivery, Destination as _, Event, Outcome};
use posthaste_publishers::redis_streams::RedisStreamPublisher;
use posthaste_testkit::server::RedisServer;

use super::server::received;
use super::{deliver_one, order, publisher_of};

fn with_topic(topic: &str) -> Event {
    Event::builder("Named").topic(topic).json_text("{}").build().expect("a good event")
}

async fn refusal(publisher: &RedisStreamPublisher, topic: &str) -> String {
    match deliver_one(publisher, with_topic(topic)).await {
        Outcome::Unsendable(why) => why,
        outcome => panic!("{topic}: {outcome:?}"),
    }
}

/// As a stream, such a key would fail every script of an outbox on the same server.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn key_of_an_outbox_is_made_no_stream_by_an_event() {
    let mut server = RedisServer::durable(&[]);
    server.start().await;
    let publisher = publisher_of(&format!("redis-stream://127.0.0.1:{}/0?stream=orders", server.port()));
    for key in ["{outbox:0}:dead", "{outbox:0}:entries", "{outbox:3}:parked"] {
        let why = refusal(&publisher, key).await;
        assert!(why.contains(key) && why.contains("another topic"), "{why}");
    }
    let batch = [order(), with_topic("{outbox:0}:dead"), order()].map(Delivery::first);
    let outcomes = publisher.deliver(&batch).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Done { .. }, Outcome::Unsendable(_), Outcome::Done { .. }]),
        "{outcomes:?}"
    );
    assert!(deliver_one(&publisher, with_topic("{outbox:0}:ticket:17")).await.is_done());
    assert_eq!(received(server.port(), 3).await.len(), 3, "no key was made for the others");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn topics_of_events_can_be_restricted() {
    let mut server = RedisServer::durable(&[]);
    server.start().await;
    let address = format!("127.0.0.1:{}", server.port());
    let by_url = publisher_of(&format!("redis-stream://{address}/0?stream=orders&topics=shop:*,audit"));
    let building = RedisStreamPublisher::builder(address.as_str()).stream("orders");
    let by_builder = building.topics(["shop:*", "audit"]).build().expect("good settings");
    for publisher in [by_url, by_builder] {
        let why = refusal(&publisher, "sessions").await;
        assert!(why.contains("sessions") && why.contains("`topics`"), "{why}");
        for event in [with_topic("shop:orders"), with_topic("audit"), order()] {
            assert!(deliver_one(&publisher, event).await.is_done());
        }
    }
    assert_eq!(received(server.port(), 6).await.len(), 6);
}

#[test]
fn stream_that_is_a_key_of_an_outbox_is_refused_when_it_is_configured() {
    let publisher_of = RedisStreamPublisher::from_url("redis-stream://localhost/0?stream={{outbox:0}}:dead");
    let error = publisher_of.map(|_| ()).expect_err("a key of an outbox").to_string();
    assert!(error.contains("key of an outbox"), "{error}");
}
