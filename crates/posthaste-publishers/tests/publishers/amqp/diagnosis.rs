//! Findings about RabbitMQ's queues.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use posthaste::admin::Severity;

use super::node::Node;
use super::queue::Queue;
use super::shared;
use crate::delivery::codes;

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    connection.expect("a connection").create_channel().await.expect("a channel")
}

fn of_kind(kind: &str) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    arguments
}

const CLASSIC_QUEUE: (&str, Severity) = ("rabbitmq-classic-queue", Severity::Warning);
const QUEUES_UNKNOWN: (&str, Severity) = ("rabbitmq-queues-unknown", Severity::Note);

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn kind_of_a_queue_is_known_without_the_management_plugin() {
    for (arguments, expected) in [
        (FieldTable::default(), vec![CLASSIC_QUEUE]),
        (of_kind("classic"), vec![CLASSIC_QUEUE]),
        (of_kind("quorum"), vec![]),
        (of_kind("stream"), vec![]),
    ] {
        let queue = Queue::new(&shared());
        queue.declare_with(arguments.clone(), "#").await;
        assert_eq!(codes(&queue.direct_url()).await, expected, "{arguments:?}");
        queue.delete().await;
    }
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn transient_queue_is_reported() {
    let queue = Queue::new(&shared());
    let channel = channel(&shared()).await;
    let options = QueueDeclareOptions { exclusive: false, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.name.as_str().into(), options, FieldTable::default()).await.expect("a queue");
    let expected = [("rabbitmq-transient-queue", Severity::Warning)];
    assert_eq!(codes(&queue.direct_url()).await, expected);
    channel
        .queue_delete(queue.name.as_str().into(), lapin::options::QueueDeleteOptions::default())
        .await
        .expect("deleted");
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn missing_queue_is_reported_and_not_created() {
    let queue = Queue::new(&shared());
    for _ in 0..2 {
        assert_eq!(codes(&queue.direct_url()).await, [("rabbitmq-no-queue", Severity::Problem)]);
    }
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let channel = channel(&shared()).await;
    let lookup = channel.queue_declare(queue.name.as_str().into(), passive, FieldTable::default());
    assert!(lookup.await.is_err(), "the diagnosis did not create it");
}

/// Properties that cannot be read are a note that says where to look.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn queues_with_unknown_properties_are_a_note() {
    let queue = Queue::declared(&shared()).await;
    assert_eq!(codes(&queue.publisher_url()).await, [QUEUES_UNKNOWN], "behind an exchange");
    assert_eq!(
        codes(&format!("{}?routing_key={{event_type}}", shared())).await,
        [QUEUES_UNKNOWN],
        "of any name"
    );
    let mut limited = of_kind("quorum");
    limited.insert("x-max-length".into(), AMQPValue::LongInt(10));
    let other = Queue::new(&shared());
    other.declare_with(limited, "#").await;
    assert_eq!(
        codes(&other.direct_url()).await,
        [QUEUES_UNKNOWN],
        "the broker names another difference first"
    );
    let silent = format!(
        "{}&management=http://127.0.0.1:{}",
        queue.publisher_url(),
        posthaste_testkit::process::free_port()
    );
    assert_eq!(codes(&silent).await, [QUEUES_UNKNOWN], "no plugin listens");
    queue.delete().await;
    other.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn management_plugin_finds_the_queues_behind_an_exchange() {
    let (mut node, management) = Node::with_management();
    node.start().await;
    let classic = Queue::declared(&node.url()).await;
    let url = |queue: &Queue| format!("{}&management={management}", queue.publisher_url());
    // The plugin starts with the node, and listens a little later.
    posthaste_testkit::server::wait_for_server("the plugin responds", async || {
        codes(&url(&classic)).await == [CLASSIC_QUEUE]
    })
    .await;

    let quorum = Queue::new(&node.url());
    quorum.declare_with(of_kind("quorum"), "#").await;
    assert_eq!(codes(&url(&quorum)).await, []);

    let bind = lapin::options::ExchangeBindOptions::default();
    let names = (classic.name.as_str().into(), quorum.name.as_str().into());
    let bound = channel(&node.url())
        .await
        .exchange_bind(names.0, names.1, "#".into(), bind, FieldTable::default())
        .await;
    bound.expect("a binding of two exchanges");
    assert_eq!(codes(&url(&quorum)).await, [CLASSIC_QUEUE], "through another exchange");

    node.control(&["add_user", "plain", "plain"]).await;
    node.control(&["set_permissions", "plain", "", ".*", ""]).await;
    let plain = url(&quorum).replace("guest:guest@", "plain:plain@");
    assert_eq!(codes(&plain).await, [QUEUES_UNKNOWN], "a user without the tag");
    let with_login = plain.replace("management=http://", "management=http://guest:guest@");
    assert_eq!(codes(&with_login).await, [CLASSIC_QUEUE], "the URL may have a login of its own");
    let direct = classic.direct_url().replace("guest:guest@", "plain:plain@");
    assert_eq!(codes(&direct).await, [QUEUES_UNKNOWN], "a user who may not configure");

    let alone = Queue::new(&node.url());
    alone.declare_internal().await;
    assert_eq!(codes(&url(&alone)).await, [("rabbitmq-no-queue", Severity::Problem)]);
}
