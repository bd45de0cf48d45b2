//! The suite and the faults of every broker, and outages that RabbitMQ alone knows.

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
use crate::broker_faults::{Broker, broker_tests, one_line_that_advises};
use crate::delivery::{event_with, order, publisher};

struct Rabbit {
    /// None on the shared server.
    node: Option<Node>,
    queue: Queue,
}

impl Rabbit {
    fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("a server of its own")
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
        self.node.as_mut().expect("a server of its own").start_with(&self.queue).await;
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

/// The default exchange is not looked for, and a channel that is open already says nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_has_an_answer_of_the_broker_even_if_there_is_no_exchange_to_look_for() {
    let mut rabbit = Rabbit::own().await;
    rabbit.start().await;
    let publisher = publisher(&format!("{}&timeout=2", rabbit.queue.direct_url()));
    assert_eq!(publisher.check().await, Ok(()));
    rabbit.server().suspend();
    let answer = publisher.check().await;
    rabbit.server().resume();
    let text = one_line_that_advises(answer.expect_err("it is held"));
    assert!(text.starts_with("RabbitMQ let us in, but does not answer"), "{text}");
}

/// Confirmations of one connection say nothing about the next.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn node_that_is_killed_three_times_among_three_thousand_keeps_all_it_confirmed() {
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
            // In the middle of the others.
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
    assert_eq!(received.collect::<HashSet<_>>(), sent, "what was confirmed is there");
}

/// The ids of those that were delivered. Of the others nothing is known.
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
