//! What makes RabbitMQ close a channel, send a message back or refuse it: one bad event, and no other.

use std::sync::Arc;

use lapin::types::{AMQPValue, FieldTable};
use posthaste::{Delivery, Destination, EventParts, Headers};

use super::queue::Queue;
use super::shared;
use crate::broker_faults::destination_is_full_for_a_while;
use crate::delivery::{
    are_delivered, changed, deliver_one, event_to, event_with, is_delivered, kinds, order, publisher, text_of,
};

/// The broker confirms a message that no queue takes, and many with one confirmation: each event gets its own
/// outcome all the same, also when batches are on the way at once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn event_that_no_queue_takes_is_a_failed_attempt_and_the_others_arrive() {
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

/// Another event with the same id, as rows of a table can have it whose ids are not unique.
fn with_id_of(first: &Delivery, change: impl Fn(&mut EventParts)) -> Delivery {
    changed(first, |parts| {
        parts.payload = "2".into();
        change(parts);
    })
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn event_that_arrived_is_not_taken_for_one_with_the_same_id_that_came_back() {
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

/// Exchange, routing key and id are the same, and nothing else of a message that came back says which it was.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn events_with_the_same_id_that_are_routed_by_headers_have_an_outcome_each() {
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
async fn exchange_that_is_not_there_is_a_failed_attempt_of_its_own_events() {
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
async fn exchange_that_is_deleted_is_noticed_and_used_again_when_it_is_back() {
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

/// Nobody may publish to an internal exchange of the broker's own.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn exchange_that_refuses_us_is_a_failed_attempt_of_its_own_events() {
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

/// A queue that refuses what it has no room for.
fn max_length(messages: i32) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(messages));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    arguments
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn backlog_waits_for_a_queue_that_is_full() {
    let queue = Queue::new(&shared());
    queue.declare_with(max_length(10), "#").await;
    let destination = publisher(&queue.publisher_url());
    destination_is_full_for_a_while(destination, async |count| drop(queue.received(count).await)).await;
    queue.delete().await;
}

/// The broker says no by basic.nack.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn message_that_a_full_queue_refuses_spends_no_attempt() {
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
    assert_eq!(queue.received(10).await.len(), done, "what was refused is not there");
    // There is room again.
    is_delivered(&destination).await;
    queue.delete().await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn headers_that_fit_into_no_frame_are_dead_and_the_others_arrive() {
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

/// A delivery may be dropped at any await. What it left behind disturbs nobody.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn deliveries_that_are_dropped_halfway_disturb_no_other() {
    use futures_util::FutureExt as _;
    let queue = Queue::declared(&shared()).await;
    let destination = publisher(&queue.publisher_url());
    let batch = || (0..50).map(|_| order()).collect::<Vec<_>>();
    are_delivered(&destination, &batch()).await;
    let mut polls = 0;
    for n in 0..40_usize {
        let abandoned = batch();
        let mut delivery = destination.deliver(&abandoned);
        for _ in 0..=n % 5 {
            polls += usize::from(delivery.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(delivery);
        are_delivered(&destination, &batch()).await;
    }
    assert!(polls > 40, "they were dropped halfway");
    let received = queue.received(41 * 50).await;
    println!("{} messages, {} of them abandoned", received.len(), received.len().saturating_sub(41 * 50));
    queue.delete().await;
}
