//! What stands in the log: neither passwords nor payloads, at any level. lapin logs more than we do.

use posthaste::{Delivery, Event, Outcome};
use posthaste_publishers::publisher;

use super::outcome_of;
use super::queue::Queue;
use super::shared;
use crate::secrets::{SENTINEL, is_child, log_everything, nothing_secret_is_logged_by};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    nothing_secret_is_logged_by("amqp::log::child", "lapin").await;
}

/// Not a test: a process that logs everything to its standard output.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    if !is_child() {
        return;
    }
    log_everything();
    let secret = || {
        let event = Event::builder("Made").topic("secret").header("note", SENTINEL);
        Delivery::first(event.json(&SENTINEL).build().expect("a good event"))
    };
    let queue = Queue::new(&shared());
    queue.declare_with(lapin::types::FieldTable::default(), "other").await;
    let unroutable = publisher(&queue.publisher_url()).expect("a good URL");
    assert!(matches!(outcome_of(&*unroutable, secret()).await, Outcome::Retry(_)));
    let refused = publisher(&queue.publisher_url().replace("guest:guest", &format!("guest:{SENTINEL}")));
    let refused = refused.expect("a good URL");
    assert!(matches!(outcome_of(&*refused, secret()).await, Outcome::Unreachable(_)));
    assert!(refused.check().await.is_err());
    let taken = publisher(&queue.direct_url()).expect("a good URL");
    let mut parts = secret().event.to_parts();
    parts.topic = None;
    assert!(outcome_of(&*taken, Delivery::first(Event::from_parts(parts))).await.is_done());
    queue.delete().await;
}
