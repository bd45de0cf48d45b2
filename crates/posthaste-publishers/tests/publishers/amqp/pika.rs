//! A foreign consumer reads the messages: Python with pika.

use std::process::Command;

use posthaste::{Delivery, Event, EventId, Headers, Timestamp};
use posthaste_testkit::variable;
use serde_json::{Value, json};

use super::queue::Queue;
use super::shared;
use crate::delivery::{changed, deliver_one, publisher};

/// Reads one message of a queue and prints its fields as JSON.
const CONSUMER_SCRIPT: &str = r#"
import json, sys, pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
method, properties, body = connection.channel().basic_get(sys.argv[2], auto_ack=True)
print(json.dumps({
    "body": body.decode(),
    "routing_key": method.routing_key,
    "message_id": properties.message_id,
    "type": properties.type,
    "content_type": properties.content_type,
    "delivery_mode": properties.delivery_mode,
    "timestamp": properties.timestamp,
    "headers": properties.headers,
}))
connection.close()
"#;

async fn read(queue: &Queue) -> Value {
    let mut python = Command::new(variable("POSTHASTE_TEST_PYTHON"));
    python.args(["-c", CONSUMER_SCRIPT, &shared(), &queue.name]);
    let output = tokio::task::spawn_blocking(move || python.output()).await.expect("a wait").expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn order() -> Delivery {
    let event = Event::builder("OrderPlaced")
        .id(EventId::from("0190-id"))
        .aggregate("Order", "o-17")
        .tenant_id("acmé 🎟")
        .occurred_at(Timestamp::from_micros(1_700_000_000_000_000))
        .json_text(r#"{"total": 42.10}"#);
    // The builder refuses such a header, but a row can contain it and AMQP can carry it.
    let headers = Headers::from([("note".to_owned(), "line\r\nnul\0".to_owned())]);
    changed(&Delivery::first(event.build().expect("a good event")), |parts| parts.headers = headers)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ and Python with pika: cargo xtask test"]
async fn pika_reads_every_field_of_a_message() {
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&queue.publisher_url());
    assert!(deliver_one(&destination, order()).await.is_done());
    assert_eq!(
        read(&queue).await,
        json!({
            "body": r#"{"total": 42.10}"#,
            "routing_key": "Order.OrderPlaced",
            "message_id": "0190-id",
            "type": "OrderPlaced",
            "content_type": "application/json",
            "delivery_mode": 2,
            "timestamp": 1_700_000_000,
            "headers": {
                "outbox-event-id": "0190-id",
                "outbox-event-type": "OrderPlaced",
                "outbox-aggregate-type": "Order",
                "outbox-aggregate-id": "o-17",
                "outbox-tenant-id": "acmé 🎟",
                "outbox-occurred-at": "2023-11-14T22:13:20.000000Z",
                "note": "line\r\nnul\0",
            },
        })
    );
    queue.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ and Python with pika: cargo xtask test"]
async fn pika_reads_cloud_events_attributes_from_headers() {
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&format!("{}&format=cloudevents", queue.publisher_url()));
    assert!(deliver_one(&destination, order()).await.is_done());
    let message = read(&queue).await;
    for (name, value) in [
        ("cloudEvents_specversion", "1.0"),
        ("cloudEvents_id", "0190-id"),
        ("cloudEvents_source", "/Order"),
        ("cloudEvents_type", "OrderPlaced"),
        ("cloudEvents_subject", "o-17"),
    ] {
        assert_eq!(message["headers"][name], value, "{name}");
    }
    assert_eq!(message["body"], r#"{"total": 42.10}"#);
    queue.delete().await;
}
