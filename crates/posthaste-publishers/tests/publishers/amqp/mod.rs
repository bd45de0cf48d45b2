//! RabbitMQ: the suite, and what only it can get wrong.

/// A node that is short of memory.
mod alarm;
/// Signals and outages, by the drivers that all publishers share.
mod broker;
/// Exchanges that are not there, queues that are full, events that break their channel.
mod channel;
/// What a doctor finds.
mod diagnosis;
/// What stands in the log.
mod log;
/// Logins, vhosts and hosts that are wrong; settings, and what is shown of them.
mod login;
/// Nodes of a test's own.
mod node;
/// A consumer that others wrote.
mod pika;
/// Exchanges and queues, and what arrived in them.
mod queue;
/// Certificates.
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event, Outcome};
use posthaste_publishers::publisher;

use node::Node;
use posthaste_testkit::variable;
use queue::Queue;

/// The URL of the server that all tests share.
fn shared() -> String {
    variable("POSTHASTE_TEST_AMQP_URL")
}

/// What the cases send is no larger than this, but for one.
const MAX_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// On the shared server; on one of its own when a case wants to stop it.
struct Rabbit {
    shared: Queue,
    own: Queue,
    node: tokio::sync::Mutex<Node>,
    is_own: AtomicBool,
}

impl Rabbit {
    async fn new() -> Self {
        let node = Node::new();
        let rabbit = Self {
            shared: Queue::new(&shared()),
            own: Queue::new(&node.url()),
            node: tokio::sync::Mutex::new(node),
            is_own: AtomicBool::new(false),
        };
        rabbit.shared.declare().await;
        rabbit
    }

    fn queue(&self) -> &Queue {
        if self.is_own.load(Ordering::SeqCst) { &self.own } else { &self.shared }
    }
}

#[async_trait]
impl DestinationHarness for Rabbit {
    fn destination(&self) -> Arc<dyn Destination> {
        let url = format!("{}&max_message_bytes={MAX_MESSAGE_BYTES}", self.queue().publisher_url());
        publisher(&url).expect("a good URL")
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.queue().received(n).await
    }

    fn refused(&self) -> Option<Event> {
        Some(Event::builder("Refused").header("BCC", "others").json_text("{}").build().expect("a good event"))
    }

    fn too_large(&self) -> Option<Event> {
        let mut parts = event("TooLarge").event.to_parts();
        parts.payload = vec![b'1'; MAX_MESSAGE_BYTES + 1].into();
        Some(Event::from_parts(parts))
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {
        self.shared.delete().await;
    }
}

#[async_trait]
impl Server for Rabbit {
    async fn start(&self) {
        self.is_own.store(true, Ordering::SeqCst);
        self.node.lock().await.start_with(&self.own).await;
    }

    async fn stop(&self) {
        self.node.lock().await.kill();
    }
}

posthaste::destination_conformance!(Rabbit::new().await, #[ignore = "needs RabbitMQ: cargo xtask test"]);

/// An event of this type with nothing much in it.
fn event(event_type: &str) -> Delivery {
    let event = Event::builder(event_type).aggregate("Thing", "t-1").json_text("{}").build();
    Delivery::first(event.expect("a good event"))
}

/// An event with a topic of its own, which is its routing key.
fn event_to(topic: &str) -> Delivery {
    let mut parts = event("Made").event.to_parts();
    parts.topic = Some(topic.into());
    Delivery::first(Event::from_parts(parts))
}

/// Delivers one event and answers what came of it.
async fn outcome_of(destination: &dyn Destination, delivery: Delivery) -> Outcome {
    let mut outcomes = destination.deliver(&[delivery]).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// The text of a failed attempt.
fn retried(outcome: &Outcome) -> String {
    let Outcome::Retry(error) = outcome else { panic!("not an attempt: {outcome:?}") };
    error.to_string()
}

/// The text of an outage without a connection.
fn unconnected(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Unreachable(why) if why.connection_failed => why.error.to_string(),
        other => panic!("not without a connection: {other:?}"),
    }
}

/// The text of an outage with a connection.
fn unanswered(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Unreachable(why) if !why.connection_failed => why.error.to_string(),
        other => panic!("not without an answer: {other:?}"),
    }
}
