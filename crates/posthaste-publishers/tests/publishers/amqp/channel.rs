//! Events for which RabbitMQ closes the channel, or returns or refuses the message. Other events of the batch are
//! not affected.

use std::sync::Arc;

use lapin::types::{AMQPValue, FieldTable};
use posthaste::{Delivery, Destination, EventParts, Headers};

use super::queue::Queue;
use super::shared;
use crate::broker_faults::full_destination_spends_no_attempts;
use crate::delivery::{
    assert_all_delivered, assert_delivered, changed, deliver_one, event_to, event_with, kinds, order,
    publisher, text_of,
};

/// The broker confirms a message that no queue takes, and may confirm many with one frame. Each event still gets
/// its own outcome, also with several batches in flight.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn unroutable_event_is_a_failed_attempt_and_the_others_arrive() {
    let queue = Queue::new(&shared());
    queue.declare_with(FieldTable::default(), "good.#").await;
    let destination = publisher(&queue.publisher_url());
    let text = format!(
        r"RabbitMQ returned the message (312 NO_ROUTE): no queue is bound to the exchange `{}` for the routing key `bad\n.one`",
        queue.name
    );
    let tasks = (0..4).map(|_| {
        let (destination, text) = (Arc::clone(&destination), text.clone());
        tokio::spawn(async move { deliver_good_and_bad(&*destination, &text).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("each has its own outcome");
    }
    queue.delete().await;
}

async fn deliver_good_and_bad(destination: &dyn Destination, text: &str) {
    for round in 0..10_usize {
        let is_good = |n: usize| !(n * 7 + round).is_multiple_of(3);
        let kind = |n: usize| if is_good(n) { "done" } else { "retry" };
        let batch: Vec<Delivery> =
            (0..100).map(|n| event_to(if is_good(n) { "good.one" } else { "bad\n.one" })).collect();
        let outcomes = destination.deliver(&batch).await;
        assert_eq!(kinds(&outcomes), (0..100).map(kind).collect::<Vec<_>>(), "round {round}");
        for outcome in outcomes.iter().filter(|outcome| !outcome.is_done()) {
            assert_eq!(text_of("retry", outcome), text);
        }
    }
}

/// Another event with the same id, as in a table whose ids are not unique.
fn with_id_of(first: &Delivery, change: impl Fn(&mut EventParts)) -> Delivery {
    changed(first, |parts| {
        parts.payload = "2".into();
        change(parts);
    })
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn delivered_event_is_not_confused_with_a_returned_one_with_the_same_id() {
    let queue = Queue::new(&shared());
    queue.declare_with(FieldTable::default(), "good.#").await;
    let destination = publisher(&queue.publisher_url());
    let good = event_to("good.one");
    let bad = with_id_of(&good, |parts| parts.topic = Some("bad.one".into()));
    let outcomes = destination.deliver(&[good.clone(), bad.clone(), good.clone(), bad]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done", "retry"], "{outcomes:?}");
    assert!(text_of("retry", &outcomes[1]).contains("NO_ROUTE"), "{outcomes:?}");
    let received = queue.received(1).await;
    assert!(received.iter().all(|message| message.payload == good.payload()), "{received:?}");
    assert_eq!(received.len(), 2, "each was sent once: {received:?}");
    queue.delete().await;
}

/// Exchange, routing key and id are the same, and a returned message has no other field that identifies it.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn events_with_the_same_id_routed_by_headers_have_an_outcome_each() {
    let queue = Queue::new(&shared());
    let mut wanted = FieldTable::default();
    wanted.insert("wanted".into(), AMQPValue::LongString("yes".into()));
    queue.declare_by_headers(wanted).await;
    let destination = publisher(&queue.publisher_url());
    let with_header = |value: &str| {
        let headers: Headers = [("wanted".to_owned(), value.to_owned())].into();
        move |parts: &mut EventParts| parts.headers = headers.clone()
    };
    let first = order();
    let (good, bad) = (with_id_of(&first, with_header("yes")), with_id_of(&first, with_header("no")));
    let outcomes = destination.deliver(&[bad.clone(), good.clone(), bad, good]).await;
    assert_eq!(kinds(&outcomes), ["retry", "done", "retry", "done"], "{outcomes:?}");
    assert!(text_of("retry", &outcomes[0]).contains("NO_ROUTE"), "{outcomes:?}");
    let received = queue.received(1).await;
    assert!(received.iter().all(|message| message.header("wanted") == Some("yes")), "{received:?}");
    queue.delete().await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn queue_is_named_by_the_routing_key_of_the_default_exchange() {
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&queue.direct_url());
    let good = order();
    let outcomes = destination.deliver(&[good.clone(), event_to("no-such-queue")]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry"]);
    assert!(text_of("retry", &outcomes[1]).ends_with("there is no queue `no-such-queue`"), "{outcomes:?}");
    assert_eq!(queue.received(1).await[0].id, *good.id());
    queue.delete().await;
}

fn event_for(exchange: &str) -> Delivery {
    event_with("exchange", exchange)
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn missing_exchange_fails_only_its_own_events() {
    let queue = Queue::declared(&shared()).await;
    let url = format!("{}?exchange={{header:exchange}}", shared());
    let destination = publisher(&url);
    let name = queue.name.as_str();
    let batch =
        [event_for(name), event_for("no-such-exchange"), event_for(name), event_for("no-such-exchange")];
    let outcomes = destination.deliver(&batch).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done", "retry"]);
    let text = text_of("retry", &outcomes[1]);
    assert!(text.contains("NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'"), "{text}");
    assert_eq!(queue.received(2).await.len(), 2, "nothing was sent twice");
    queue.delete().await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn deleted_exchange_is_noticed_and_used_again_once_it_exists() {
    let (queue, other) = (Queue::declared(&shared()).await, Queue::declared(&shared()).await);
    let url = format!("{}?exchange={{header:exchange}}", shared());
    let destination = publisher(&url);
    let batch = || [event_for(&other.name), event_for(&queue.name), event_for(&other.name)];
    assert_eq!(kinds(&destination.deliver(&batch()).await), ["done", "done", "done"]);
    queue.delete_exchange().await;
    for _ in 0..2 {
        let outcomes = destination.deliver(&batch()).await;
        assert_eq!(kinds(&outcomes), ["done", "retry", "done"], "{outcomes:?}");
        assert!(text_of("retry", &outcomes[1]).contains("NOT_FOUND"), "{outcomes:?}");
    }
    queue.declare().await;
    assert_eq!(kinds(&destination.deliver(&batch()).await), ["done", "done", "done"]);
    queue.delete().await;
    other.delete().await;
}

/// Clients may not publish to an internal exchange.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn exchange_that_refuses_messages_fails_only_its_own_events() {
    let queue = Queue::declared(&shared()).await;
    let internal = Queue::new(&shared());
    internal.declare_internal().await;
    let url = format!("{}?exchange={{header:exchange}}", shared());
    let destination = publisher(&url);
    let batch = [
        event_for(&queue.name),
        event_for(&internal.name),
        event_for(&queue.name),
        event_for(&internal.name),
    ];
    for _ in 0..2 {
        let outcomes = destination.deliver(&batch).await;
        assert_eq!(kinds(&outcomes), ["done", "retry", "done", "retry"], "{outcomes:?}");
        let text = text_of("retry", &outcomes[1]);
        assert!(text.contains("ACCESS_REFUSED") && text.contains("internal"), "{text}");
    }
    queue.delete().await;
    internal.delete_exchange().await;
}

/// Arguments of a queue that refuses messages when it is full.
fn max_length(messages: i32) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(messages));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    arguments
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn backlog_waits_for_a_full_queue() {
    let queue = Queue::new(&shared());
    queue.declare_with(max_length(10), "#").await;
    let destination = publisher(&queue.publisher_url());
    full_destination_spends_no_attempts(destination, async |count| drop(queue.received(count).await)).await;
    queue.delete().await;
}

/// The broker replies with basic.nack.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn event_refused_by_a_full_queue_spends_no_attempt() {
    let queue = Queue::new(&shared());
    queue.declare_with(max_length(10), "#").await;
    let destination = publisher(&queue.publisher_url());
    let mut refused = Vec::new();
    for _ in 0..30 {
        refused.push(deliver_one(&destination, order()).await);
    }
    let done = refused.iter().filter(|outcome| outcome.is_done()).count();
    assert!((10..=11).contains(&done), "{done} of {refused:?}");
    for outcome in refused.iter().filter(|outcome| !outcome.is_done()) {
        let text = text_of("busy", outcome);
        assert!(text.starts_with("RabbitMQ refused the message (basic.nack)"), "{text}");
    }
    assert_eq!(queue.received(10).await.len(), done, "refused events are not in the queue");
    // The queue has room again.
    assert_delivered(&destination).await;
    queue.delete().await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn event_with_headers_larger_than_a_frame_is_dead_and_the_others_arrive() {
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&queue.publisher_url());
    let with_headers = |bytes: usize| event_with("large", &"x".repeat(bytes));
    let batch = [order(), with_headers(131_072), with_headers(129_000), order()];
    let outcomes = destination.deliver(&batch).await;
    assert_eq!(kinds(&outcomes), ["done", "unsendable", "done", "done"], "{outcomes:?}");
    assert!(text_of("unsendable", &outcomes[1]).contains("bytes"), "{outcomes:?}");
    assert_eq!(queue.received(3).await.len(), 3);
    queue.delete().await;
}

/// A delivery may be dropped at any await. Its remains must not affect other deliveries.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn dropped_deliveries_do_not_affect_others() {
    use futures_util::FutureExt as _;
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&queue.publisher_url());
    let batch = || (0..50).map(|_| order()).collect::<Vec<_>>();
    assert_all_delivered(&destination, &batch()).await;
    let mut polls = 0;
    for n in 0..40_usize {
        let abandoned = batch();
        let mut delivery = destination.deliver(&abandoned);
        for _ in 0..=n % 5 {
            polls += usize::from(delivery.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(delivery);
        assert_all_delivered(&destination, &batch()).await;
    }
    assert!(polls > 40, "they were dropped while pending");
    let received = queue.received(41 * 50).await;
    println!("{} messages, {} of them abandoned", received.len(), received.len().saturating_sub(41 * 50));
    queue.delete().await;
}
