//! RabbitMQ's memory alarm: the node keeps its connections but accepts no messages.

use std::sync::Mutex;

use posthaste::EventId;
use posthaste_testkit::server::wait_for_server;

use super::node::Node;
use super::queue::Queue;
use crate::delivery::{deliver_one, kind_and_text, order, publisher, text_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn events_are_unreachable_during_a_memory_alarm_and_none_is_lost() {
    let mut node = Node::new();
    node.start().await;
    let queue = Queue::declared(&node.url()).await;
    let destination = publisher(&format!("{}&timeout=2", queue.publisher_url()));
    let done: Mutex<Vec<EventId>> = Mutex::default();
    let deliver = async || {
        let event = order();
        let outcome = deliver_one(&destination, event.clone()).await;
        if outcome.is_done() {
            done.lock().expect("no panic").push(event.id().clone());
        }
        outcome
    };
    assert!(deliver().await.is_done());

    node.control(&["set_vm_memory_high_watermark", "0"]).await;
    wait_for_server("the alarm is on", async || kind_and_text(&deliver().await).0 == "no answer").await;
    let text = text_of("no answer", &deliver().await);
    assert!(text.contains("short of memory"), "{text}");

    node.control(&["set_vm_memory_high_watermark", "0.9"]).await;
    wait_for_server("events are accepted again", async || deliver().await.is_done()).await;
    let done = done.into_inner().expect("no panic");
    let received = queue.received(done.len()).await;
    assert!(
        done.iter().all(|id| received.iter().any(|message| message.id == *id)),
        "{done:?} in {received:?}"
    );
}
