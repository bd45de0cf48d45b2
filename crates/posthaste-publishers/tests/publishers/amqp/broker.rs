//! The conformance suite and the common broker faults on RabbitMQ, and faults that only RabbitMQ has.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use posthaste::conformance::destination::Received;
use posthaste::{Delivery, Destination, EventId, Outcome};
use posthaste_testkit::server::OwnServer;

use super::node::Node;
use super::queue::Queue;
use super::shared;
use crate::broker_faults::{Broker, assert_advice, broker_tests};
use crate::delivery::{event_with, order, publisher};

struct Rabbit {
    /// `None` on the shared server.
    node: Option<Node>,
    queue: Queue,
}

impl Rabbit {
    fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("a private server")
    }
}

#[async_trait]
impl Broker for Rabbit {
    async fn shared() -> Self {
        Self { node: None, queue: Queue::declared(&shared()).await }
    }

    async fn own() -> Self {
        let node = Node::new();
        let queue = Queue::new(&node.url());
        Self { node: Some(node), queue }
    }

    fn url(&self) -> String {
        self.queue.publisher_url()
    }

    fn server(&mut self) -> &mut OwnServer {
        &mut self.node().server
    }

    async fn start(&mut self) {
        self.node.as_mut().expect("a private server").start_with(&self.queue).await;
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.queue.received(n).await
    }

    fn refused() -> Delivery {
        event_with("BCC", "others")
    }

    async fn close(&self) {
        self.queue.delete().await;
    }
}

broker_tests!(Rabbit, "needs RabbitMQ: cargo xtask test");

/// The default exchange is not looked up, and a channel that is already open proves nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_waits_for_a_reply_even_without_an_exchange_to_look_up() {
    let mut rabbit = Rabbit::own().await;
    rabbit.start().await;
    let publisher = publisher(&format!("{}&timeout=2", rabbit.queue.direct_url()));
    assert_eq!(publisher.check().await, Ok(()));
    rabbit.server().suspend();
    let result = publisher.check().await;
    rabbit.server().resume();
    let text = assert_advice(result.expect_err("it is suspended"));
    assert!(text.starts_with("RabbitMQ accepted the login, but does not reply"), "{text}");
}

/// Delivery tags start again on each connection, so a confirmation must not be matched across connections.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn no_confirmed_event_is_lost_when_the_node_is_killed_three_times() {
    const KILLS: usize = 3;
    let mut rabbit = Rabbit::own().await;
    rabbit.start().await;
    let destination = publisher(&rabbit.url());
    let mut left: Vec<Delivery> = (0..3_000).map(|_| order()).collect();
    let sent: HashSet<EventId> = left.iter().map(|event| event.id().clone()).collect();
    let mut kills = 0;
    while !left.is_empty() {
        let batches = left.chunks(100).take(10).map(|batch| {
            let (destination, batch) = (Arc::clone(&destination), batch.to_vec());
            tokio::spawn(async move { delivered(&*destination, &batch).await })
        });
        let mut batches: FuturesUnordered<_> = batches.collect();
        let (mut done, mut is_killed) = (HashSet::new(), kills == KILLS);
        while let Some(batch) = batches.next().await {
            done.extend(batch.expect("no delivery panics"));
            // Killed while the other batches are in flight.
            if !is_killed {
                rabbit.server().kill();
                (is_killed, kills) = (true, kills + 1);
            }
        }
        println!("{} of {} are done after {kills} kills", done.len(), left.len());
        left.retain(|event| !done.contains(event.id()));
        rabbit.node().start().await;
    }
    assert_eq!(kills, KILLS);
    let received = rabbit.received(sent.len()).await.into_iter().map(|message| message.id);
    assert_eq!(received.collect::<HashSet<_>>(), sent, "every confirmed event has arrived");
}

/// The ids of the delivered events. The result of the others is unknown.
async fn delivered(destination: &dyn Destination, batch: &[Delivery]) -> Vec<EventId> {
    let outcomes = destination.deliver(batch).await;
    let mut done = Vec::new();
    for (event, outcome) in batch.iter().zip(outcomes) {
        match outcome {
            Outcome::Done { .. } => done.push(event.id().clone()),
            Outcome::Unreachable(_) => {}
            other => panic!("{other:?}"),
        }
    }
    done
}
