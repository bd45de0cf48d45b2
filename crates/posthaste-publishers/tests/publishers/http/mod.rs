//! Webhooks: the suite and the brokers' troubles on a receiver in a process of its own, and what only HTTP can
//! get wrong on receivers that do odd things.

/// Settings, order, concurrency, connections.
mod behaviour;
/// Receivers that answer oddly or not at all.
mod misbehaving;
/// A receiver that nobody here wrote: Python's own server and cryptography.
mod python;
/// The receiver that keeps what it gets.
mod receiver;
/// Certificates that are good, and those that are not.
mod tls;
/// Just enough of HTTP to answer as no good server would.
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event, EventId, EventParts, Outcome};
use posthaste_publishers::http::{HttpBuilder, HttpPublisher};
use tokio::sync::Mutex;

use self::receiver::Receiver;
use crate::broker_faults;
use crate::broker_faults::Broker;

/// Webhooks to this machine.
pub(crate) fn local(url: &str) -> HttpBuilder {
    HttpPublisher::builder(url).allow_http().allow_networks(["127.0.0.0/8", "::1"])
}

/// An event without a key.
fn event(n: usize) -> Delivery {
    Delivery::first(Event::json("Made", &n).expect("a good event"))
}

fn event_of(key: &str, n: usize) -> Delivery {
    let event = Event::builder("Made").aggregate("Thing", key).json(&n).build();
    Delivery::first(event.expect("a good event"))
}

/// What became of one event.
async fn deliver_one(hooks: &HttpPublisher, delivery: Delivery) -> Outcome {
    hooks.deliver(&[delivery]).await.remove(0)
}

/// What kind of outcome it is, and its text.
fn kind_and_text(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Done { .. } => ("done", String::new()),
        Outcome::Defer(_) => ("defer", String::new()),
        Outcome::Retry(error) => ("retry", error.to_string()),
        Outcome::RetryAfter(_, error) => ("retry after", error.to_string()),
        Outcome::Dead(reason) => ("dead", reason.clone()),
        Outcome::Unsendable(reason) => ("unsendable", reason.clone()),
        Outcome::Busy(busy) => ("busy", busy.error.to_string()),
        Outcome::Unreachable(why) if why.connection_failed => ("no connection", why.error.to_string()),
        Outcome::Unreachable(why) => ("no answer", why.error.to_string()),
        other => ("unknown", format!("{other:?}")),
    }
}

fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().map(|outcome| kind_and_text(outcome).0).collect()
}

struct Webhooks {
    url: String,
    receiver: Mutex<Receiver>,
}

impl Webhooks {
    async fn new() -> Self {
        let mut receiver = Receiver::new();
        receiver.start().await;
        Self { url: receiver.url(), receiver: Mutex::new(receiver) }
    }
}

#[async_trait]
impl DestinationHarness for Webhooks {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::new(local(&self.url).build().expect("good settings"))
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.receiver.lock().await.requests(n).await
    }

    fn refused(&self) -> Option<Event> {
        Event::json("Refused", "no").ok()
    }

    fn too_large(&self) -> Option<Event> {
        let payload = vec![b' '; 5 * 1024 * 1024 + 1].into();
        let parts = Event::bytes("Large", "text/plain", "").expect("a good event").to_parts();
        Some(Event::from_parts(EventParts { payload, ..parts }))
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {}
}

#[async_trait]
impl Server for Webhooks {
    async fn start(&self) {
        self.receiver.lock().await.start().await;
    }

    async fn stop(&self) {
        self.receiver.lock().await.kill();
    }
}

posthaste::destination_conformance!(Webhooks::new().await);

#[async_trait]
impl Broker for Receiver {
    fn url(&self) -> String {
        Receiver::url(self)
    }

    async fn start(&mut self) {
        Receiver::start(self).await;
    }

    fn kill(&mut self) {
        Receiver::kill(self);
    }

    fn suspend(&self) {
        self.server.suspend();
    }

    fn resume(&self) {
        self.server.resume();
    }

    async fn received(&self, n: usize) -> Vec<EventId> {
        self.requests(n).await.into_iter().map(|request| request.id).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: cargo xtask test"]
async fn nothing_is_lost_while_the_receiver_is_away() {
    broker_faults::broker_is_killed_for_half_a_minute(&mut Receiver::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_whether_the_receiver_is_there() {
    broker_faults::broker_is_checked(&mut Receiver::new()).await;
}

#[tokio::test]
async fn check_says_that_a_host_has_no_address() {
    let text =
        broker_faults::is_out_of_reach("https://me:s3ntinel-PW-9f@no-such-host.invalid/s3ntinel-PW-9f").await;
    assert!(text.starts_with("cannot connect to https://no-such-host.invalid: "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes some seconds: cargo xtask test"]
async fn nothing_comes_twice_when_the_receiver_is_slow() {
    broker_faults::broker_answers_later_than_the_lease_ends(&mut Receiver::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes some seconds: cargo xtask test"]
async fn nothing_is_lost_when_the_process_stops_while_the_receiver_holds_its_answers() {
    broker_faults::process_is_asked_to_stop_with_a_thousand_in_flight(&mut Receiver::new()).await;
}
