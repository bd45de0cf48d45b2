//! NATS: the suite, the troubles of every broker, and what only NATS can get wrong.

mod diagnosis;
mod log;
mod login;
mod outcomes;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event, EventId, Outcome};
use posthaste_publishers::nats::NatsPublisher;
use posthaste_testkit::variable;
use tokio::sync::Mutex;

use crate::broker_faults::{self, Broker};
use server::{NatsServer, Stream, unique_stream_name};

/// One stream of its own on the shared server, or on a server of its own once that was started.
struct Nats {
    name: String,
    own: Mutex<NatsServer>,
    own_url: String,
    is_own: AtomicBool,
}

impl Nats {
    async fn new() -> Self {
        let own = NatsServer::new("");
        let own_url = own.url();
        let nats = Self {
            name: unique_stream_name(),
            own: Mutex::new(own),
            own_url,
            is_own: AtomicBool::new(false),
        };
        nats.stream().create().await;
        nats
    }

    fn server_url(&self) -> String {
        if self.is_own.load(Ordering::SeqCst) { self.own_url.clone() } else { shared() }
    }

    fn stream(&self) -> Stream {
        Stream::new(self.server_url(), &self.name)
    }
}

/// The server of all tests.
fn shared() -> String {
    let servers = variable("POSTHASTE_TEST_NATS_URL");
    servers.split(',').next().expect("a server").to_owned()
}

#[async_trait]
impl Server for Nats {
    async fn start(&self) {
        self.own.lock().await.start().await;
        self.is_own.store(true, Ordering::SeqCst);
        self.stream().create().await;
    }

    async fn stop(&self) {
        self.own.lock().await.kill();
    }
}

#[async_trait]
impl DestinationHarness for Nats {
    fn destination(&self) -> Arc<dyn Destination> {
        let url = format!("{}/{}.events", self.server_url(), self.name);
        posthaste_publishers::publisher(&url).expect("a good URL")
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.stream().received(n).await
    }

    fn refused(&self) -> Option<Event> {
        Event::builder("Commanding").header("Nats-Rollup", "all").json_text("{}").build().ok()
    }

    fn too_large(&self) -> Option<Event> {
        let mut parts = Event::builder("Large").json_text("{}").build().expect("a good event").to_parts();
        parts.payload = vec![b'x'; 9 << 20].into();
        Some(Event::from_parts(parts))
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {
        if !self.is_own.load(Ordering::SeqCst) {
            self.stream().delete().await;
        }
    }
}

posthaste::destination_conformance!(Nats::new().await, #[ignore = "needs NATS: cargo xtask test"]);

/// A server of its own with one stream.
struct OwnBroker {
    server: NatsServer,
    stream: Stream,
}

impl OwnBroker {
    fn new() -> Self {
        let server = NatsServer::new("");
        let stream = Stream::new(server.url(), "trouble");
        Self { server, stream }
    }
}

#[async_trait]
impl Broker for OwnBroker {
    fn url(&self) -> String {
        format!("{}/trouble.{{aggregate_type}}?timeout=8", self.server.url())
    }

    async fn start(&mut self) {
        self.server.start().await;
        self.stream.create().await;
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
        self.stream.received(n).await.into_iter().map(|message| message.id).collect()
    }
}

// F25, T-BROKERDOWN
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn server_that_is_killed_for_half_a_minute_loses_nothing() {
    broker_faults::broker_is_killed_for_half_a_minute(&mut OwnBroker::new()).await;
}

// T-SLOW
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn server_that_answers_later_than_the_lease_ends_gets_nothing_twice() {
    broker_faults::broker_answers_later_than_the_lease_ends(&mut OwnBroker::new()).await;
}

// T-TERM
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn process_that_is_asked_to_stop_loses_nothing() {
    broker_faults::process_is_asked_to_stop_with_a_thousand_in_flight(&mut OwnBroker::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn check_says_whether_the_server_is_there() {
    broker_faults::broker_is_checked(&mut OwnBroker::new()).await;
}

fn order() -> Event {
    let event = Event::builder("OrderPlaced").aggregate("Order", "o-17").header("region", "eu");
    event.json_text(r#"{"total": 42.10}"#).build().expect("a good event")
}

async fn deliver_one(destination: &dyn Destination, event: Event) -> Outcome {
    destination.deliver(&[Delivery::first(event)]).await.remove(0)
}

fn publisher_of(url: &str) -> NatsPublisher {
    NatsPublisher::from_url(url).expect("a good URL")
}
