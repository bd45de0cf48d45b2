//! A node that is short of memory keeps its connections, and takes nothing over them.

use std::sync::Mutex;

use posthaste::{EventId, Outcome};
use posthaste_publishers::publisher;
use posthaste_testkit::server::wait_for_server;

use super::node::Node;
use super::queue::Queue;
use super::{event, outcome_of, unanswered};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn node_that_is_short_of_memory_gives_no_answer_and_loses_nothing() {
    let mut node = Node::new();
    node.start().await;
    let queue = Queue::declared(&node.url()).await;
    let destination = publisher(&format!("{}&timeout=2", queue.publisher_url())).expect("a good URL");
    let done: Mutex<Vec<EventId>> = Mutex::default();
    let deliver = async || {
        let event = event("Made");
        let outcome = outcome_of(&*destination, event.clone()).await;
        if outcome.is_done() {
            done.lock().expect("no panic").push(event.id().clone());
        }
        outcome
    };
    assert!(deliver().await.is_done());

    node.control(&["set_vm_memory_high_watermark", "0"]).await;
    wait_for_server("it takes nothing", async || matches!(deliver().await, Outcome::Unreachable(_))).await;
    let text = unanswered(&deliver().await);
    assert!(text.contains("short of memory"), "{text}");

    node.control(&["set_vm_memory_high_watermark", "0.9"]).await;
    wait_for_server("it takes them again", async || deliver().await.is_done()).await;
    let done = done.into_inner().expect("no panic");
    let received = queue.received(done.len()).await;
    assert!(
        done.iter().all(|id| received.iter().any(|message| message.id == *id)),
        "{done:?} in {received:?}"
    );
}
