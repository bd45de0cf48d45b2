//! What goes wrong with brokers.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use posthaste::{Delivery, Destination, EventId, Outcome};
use posthaste_publishers::publisher;

use super::event;
use super::node::Node;
use super::queue::Queue;
use crate::broker_faults::{self, Broker};

struct OwnBroker {
    node: Node,
    queue: Queue,
}

impl OwnBroker {
    fn new() -> Self {
        let node = Node::new();
        let queue = Queue::new(&node.url());
        Self { node, queue }
    }
}

#[async_trait]
impl Broker for OwnBroker {
    fn url(&self) -> String {
        self.queue.publisher_url()
    }

    async fn start(&mut self) {
        self.node.start_with(&self.queue).await;
    }

    fn kill(&mut self) {
        self.node.kill();
    }

    fn suspend(&self) {
        self.node.suspend();
    }

    fn resume(&self) {
        self.node.resume();
    }

    async fn received(&self, n: usize) -> Vec<EventId> {
        self.queue.received(n).await.into_iter().map(|message| message.id).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn outage_of_half_a_minute_loses_nothing_and_spends_no_attempt() {
    broker_faults::broker_is_killed_for_half_a_minute(&mut OwnBroker::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn confirmation_later_than_the_lease_brings_nothing_twice() {
    broker_faults::broker_answers_later_than_the_lease_ends(&mut OwnBroker::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn process_that_is_stopped_with_a_thousand_in_flight_loses_none() {
    broker_faults::process_is_asked_to_stop_with_a_thousand_in_flight(&mut OwnBroker::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_says_whether_the_broker_is_there() {
    broker_faults::broker_is_checked(&mut OwnBroker::new()).await;
}

/// The default exchange is not looked for, and a channel that is open already says nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_has_an_answer_of_the_broker_even_if_there_is_no_exchange_to_look_for() {
    let mut rabbit = OwnBroker::new();
    rabbit.start().await;
    let url = format!("{}&timeout=2", rabbit.queue.direct_url());
    let publisher = publisher(&url).expect("a good URL");
    assert_eq!(publisher.check().await, Ok(()));
    rabbit.suspend();
    let answer = publisher.check().await;
    rabbit.resume();
    let text = broker_faults::one_line_that_advises(answer.expect_err("it is held"));
    assert!(text.starts_with("RabbitMQ let us in, but does not answer"), "{text}");
}

/// Confirmations of one connection say nothing about the next.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn node_that_is_killed_three_times_among_three_thousand_keeps_all_it_confirmed() {
    const KILLS: usize = 3;
    let mut rabbit = OwnBroker::new();
    rabbit.start().await;
    let destination = publisher(&rabbit.url()).expect("a good URL");
    let mut left: Vec<Delivery> = (0..3_000).map(|_| event("Kept")).collect();
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
                rabbit.node.kill();
                (is_killed, kills) = (true, kills + 1);
            }
        }
        println!("{} of {} are done after {kills} kills", done.len(), left.len());
        left.retain(|event| !done.contains(event.id()));
        rabbit.node.start().await;
    }
    assert_eq!(kills, KILLS);
    let received: HashSet<EventId> = rabbit.received(sent.len()).await.into_iter().collect();
    assert_eq!(received, sent, "what was confirmed is there");
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
