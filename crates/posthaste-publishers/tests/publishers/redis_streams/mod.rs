//! Redis Streams: the suite, the troubles of every broker, and what only Redis can get wrong.

mod diagnosis;
mod failover;
mod login;
mod outcomes;
mod server;
mod topics;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event, EventId, Outcome};
use posthaste_publishers::Publisher as _;
use posthaste_publishers::redis_streams::RedisStreamPublisher;
use posthaste_testkit::server::RedisServer;
use tokio::sync::Mutex;

use crate::broker_faults::{self, Broker};
use server::received;

/// A server of its own: events name their streams, and these tests look at all there are.
struct Redis {
    port: u16,
    server: Mutex<RedisServer>,
}

impl Redis {
    async fn new() -> Self {
        let mut server = RedisServer::durable(&[]);
        server.start().await;
        Self { port: server.port(), server: Mutex::new(server) }
    }
}

#[async_trait]
impl Server for Redis {
    async fn start(&self) {
        self.server.lock().await.start().await;
    }

    async fn stop(&self) {
        self.server.lock().await.kill();
    }
}

#[async_trait]
impl DestinationHarness for Redis {
    fn destination(&self) -> Arc<dyn Destination> {
        let url = format!("redis-stream://127.0.0.1:{}?stream=events", self.port);
        posthaste_publishers::publisher(&url).expect("a good URL")
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        received(self.port, n).await
    }

    fn refused(&self) -> Option<Event> {
        let mut parts = order().to_parts();
        parts.topic = Some("".into());
        Some(Event::from_parts(parts))
    }

    fn too_large(&self) -> Option<Event> {
        let mut parts = order().to_parts();
        parts.payload = vec![b'x'; 17 << 20].into();
        Some(Event::from_parts(parts))
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {}
}

posthaste::destination_conformance!(Redis::new().await, #[ignore = "needs Redis: cargo xtask test"]);

struct OwnBroker {
    server: RedisServer,
    /// How long it may be silent, in seconds.
    timeout: u32,
}

#[async_trait]
impl Broker for OwnBroker {
    fn url(&self) -> String {
        let (port, timeout) = (self.server.port(), self.timeout);
        format!("redis-stream://127.0.0.1:{port}/?stream=trouble:{{aggregate_type}}&timeout={timeout}")
    }

    async fn start(&mut self) {
        self.server.start().await;
    }

    fn kill(&mut self) {
        self.server.kill();
    }

    fn suspend(&self) {
        self.server.suspend();
    }

    fn resume(&self) {
        self.server.resume();
    }

    async fn received(&self, n: usize) -> Vec<EventId> {
        received(self.server.port(), n).await.into_iter().map(|message| message.id).collect()
    }
}

// T-BROKERDOWN
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_is_killed_for_half_a_minute_loses_nothing() {
    let mut broker = OwnBroker { server: RedisServer::durable(&[]), timeout: 2 };
    broker_faults::broker_is_killed_for_half_a_minute(&mut broker).await;
}

/// With a timeout that is longer than the silence: Redis does not know repeats.
// T-SLOW
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_answers_later_than_the_lease_ends_gets_nothing_twice() {
    let mut broker = OwnBroker { server: RedisServer::durable(&[]), timeout: 30 };
    broker_faults::broker_answers_later_than_the_lease_ends(&mut broker).await;
}

// T-TERM
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn process_that_is_asked_to_stop_loses_nothing() {
    let mut broker = OwnBroker { server: RedisServer::durable(&[]), timeout: 30 };
    broker_faults::process_is_asked_to_stop_with_a_thousand_in_flight(&mut broker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn check_says_whether_the_server_is_there() {
    let mut broker = OwnBroker { server: RedisServer::durable(&[]), timeout: 2 };
    broker_faults::broker_is_checked(&mut broker).await;
}

/// The publisher learns that its connection broke when it uses it: the server is there all the same.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn check_makes_a_connection_anew_that_broke_while_nobody_used_it() {
    let mut server = RedisServer::durable(&[]);
    server.start().await;
    let publisher = publisher_of(&format!("redis-stream://127.0.0.1:{}?stream=orders", server.port()));
    assert_eq!(publisher.check().await, Ok(()));
    server.kill();
    server.start().await;
    assert_eq!(publisher.check().await, Ok(()));
}

fn order() -> Event {
    let event = Event::builder("OrderPlaced").aggregate("Order", "o-17").header("region", "eu");
    event.json_text(r#"{"total": 42.10}"#).build().expect("a good event")
}

async fn deliver_one(destination: &dyn Destination, event: Event) -> Outcome {
    destination.deliver(&[Delivery::first(event)]).await.remove(0)
}

fn publisher_of(url: &str) -> RedisStreamPublisher {
    RedisStreamPublisher::from_url(url).expect("a good URL")
}

fn unreachable_reason(outcome: &Outcome) -> String {
    let Outcome::Unreachable(why) = outcome else { panic!("{outcome:?}") };
    why.error.to_string()
}
