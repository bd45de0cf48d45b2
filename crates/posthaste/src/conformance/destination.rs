//! The destination suite: every event arrives complete, with its id, and gets its own outcome.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;

use super::hostile_values;
use super::store_fixture::{named, plain, sorted};
use crate::destination::{Delivery, Destination, Outcome};
use crate::event::{Event, EventId, Headers, Limits};
use crate::trace::{TRACEPARENT, TraceContext};

/// One destination under test, empty at first. Every case gets a fresh one.
#[async_trait]
pub trait DestinationHarness: Send + Sync {
    /// The destination.
    fn destination(&self) -> Arc<dyn Destination>;

    /// The messages that arrived, in the order in which the consumer sees them, once there are at least `n`. Fails
    /// after a while if there are fewer.
    async fn received(&self, n: usize) -> Vec<Received>;

    /// An event that the destination refuses although it accepts others, if there is one.
    fn refused(&self) -> Option<Event>;

    /// An event with more bytes than the destination ever accepts, if there is one.
    fn too_large(&self) -> Option<Event>;

    /// The server behind the destination, if there is one that can be stopped.
    fn server(&self) -> Option<&dyn Server>;

    /// What a consumer can see of an event.
    fn capabilities(&self) -> DestinationCapabilities;

    /// Removes everything that the case left behind. Called at its end, even if it failed.
    async fn close(&self);
}

/// The server behind a destination: a broker that the case may stop, because no other test uses it at the same time.
#[async_trait]
pub trait Server: Send + Sync {
    /// Makes the destination able to accept events; called before the first one. Messages that the server accepted
    /// before it was stopped must still exist after it was started again.
    async fn start(&self);

    /// Stops it without a warning, and returns when it is gone.
    async fn stop(&self);
}

/// What a consumer of a destination can see of an event. A case that needs more prints that it was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestinationCapabilities {
    /// The event's aggregate id is the key of the message, or its equivalent in this protocol.
    pub key: bool,
    /// The message has the event's headers.
    pub headers: bool,
    /// Events of one key are seen in the order in which they were delivered.
    pub order: bool,
}

impl DestinationCapabilities {
    /// Everything.
    pub const ALL: Self = Self { key: true, headers: true, order: true };

    /// The same without keys.
    #[must_use]
    pub const fn without_key(self) -> Self {
        Self { key: false, ..self }
    }

    /// The same without headers.
    #[must_use]
    pub const fn without_headers(self) -> Self {
        Self { headers: false, ..self }
    }

    /// The same without an order within a key.
    #[must_use]
    pub const fn without_order(self) -> Self {
        Self { order: false, ..self }
    }
}

/// One message as its consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The event's id, from where this destination puts it.
    pub id: EventId,
    /// The event's payload.
    pub payload: Bytes,
    /// The event's aggregate id, from where this destination puts it.
    pub key: Option<String>,
    /// All headers of the message, including those that the destination adds, in any case.
    pub headers: Headers,
}

/// For a destination whose consumer sees the delivery itself, as a handler does.
impl From<&Delivery> for Received {
    fn from(delivery: &Delivery) -> Self {
        let mut headers = delivery.headers().clone();
        headers.extend(delivery.trace.as_ref().map(|trace| (TRACEPARENT.to_owned(), trace.traceparent())));
        Self {
            id: delivery.id().clone(),
            payload: delivery.payload().clone(),
            key: delivery.aggregate_id().map(str::to_owned),
            headers,
        }
    }
}

impl Received {
    /// A message with this event id and payload, without a key and headers.
    pub fn new(id: impl Into<EventId>, payload: impl Into<Bytes>) -> Self {
        Self { id: id.into(), payload: payload.into(), key: None, headers: Headers::new() }
    }

    /// Sets the event's aggregate id, if the message carries one.
    #[must_use]
    pub fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Sets all headers of the message.
    #[must_use]
    pub fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    /// A header by its name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }
}

/// Delivers in batches of the destination's size. Returns every outcome.
async fn deliver(destination: &dyn Destination, events: &[Event]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for batch in events.chunks(destination.profile().batch.max(1)) {
        let batch: Vec<Delivery> = batch.iter().cloned().map(Delivery::first).collect();
        let returned = destination.deliver(&batch).await;
        assert_eq!(returned.len(), batch.len(), "one outcome per event");
        outcomes.extend(returned);
    }
    outcomes
}

async fn arrive(h: &dyn DestinationHarness, events: &[Event]) {
    for outcome in deliver(&*h.destination(), events).await {
        assert!(outcome.is_done(), "{outcome:?}");
    }
    let received = h.received(events.len()).await;
    let sent: Vec<EventId> = events.iter().map(|event| event.id().clone()).collect();
    assert_eq!(sorted(received.iter().map(|message| message.id.clone()).collect()), sorted(sent));
    for event in events {
        let message = received.iter().find(|message| message.id == *event.id());
        let whole = message.is_some_and(|message| message.payload == event.payload());
        assert!(whole, "the payload of {event:?} arrives byte for byte");
    }
}

pub async fn single_event_arrives(h: &dyn DestinationHarness) {
    arrive(h, &[plain()]).await;
}

// S2-06, S2-47, S3-120
pub async fn every_event_of_a_batch_arrives_with_its_id(h: &dyn DestinationHarness) {
    let events: Vec<Event> = (0..100).map(|n| Event::json("Batched", &n).expect("a good event")).collect();
    arrive(h, &events).await;
}

pub async fn one_bad_event_does_not_fail_the_batch(h: &dyn DestinationHarness) {
    let Some(refused) = h.refused() else {
        println!("skipped: this destination refuses nothing");
        return;
    };
    let events = [plain(), refused, plain()];
    let outcomes = deliver(&*h.destination(), &events).await;
    let done: Vec<bool> = outcomes.iter().map(Outcome::is_done).collect();
    assert_eq!(done, [true, false, true], "{outcomes:?}");
    assert_eq!(h.received(2).await.len(), 2);
}

pub async fn empty_payload_survives(h: &dyn DestinationHarness) {
    arrive(h, &[Event::bytes("Empty", "text/plain", "").expect("a good event")]).await;
}

pub async fn payload_of_one_mebibyte_survives(h: &dyn DestinationHarness) {
    let text = format!("\"{}\"", "x".repeat(Limits::PAYLOAD_BYTES - 2));
    arrive(h, &[Event::builder("Large").json_text(text).build().expect("a good event")]).await;
}

pub async fn binary_payload_survives(h: &dyn DestinationHarness) {
    let bytes: Vec<u8> = (0..=255).collect();
    arrive(h, &[Event::bytes("Binary", "application/octet-stream", bytes).expect("a good event")]).await;
}

pub async fn unicode_survives(h: &dyn DestinationHarness) {
    let event = Event::builder("Größe")
        .aggregate("注文", "№ 17 🎟")
        .tenant_id("Ünïcode")
        .header("note", "naïve 🚀")
        .json_text("\"日本語 🎉\"")
        .build();
    arrive(h, &[event.expect("a good event")]).await;
}

pub async fn concurrent_calls_all_arrive(h: &dyn DestinationHarness) {
    const TASKS: usize = 8;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let destination = h.destination();
            let events: Vec<Event> = (0..20).map(|_| named(&format!("Task{task}"))).collect();
            tokio::spawn(async move {
                let outcomes = deliver(&*destination, &events).await;
                assert!(outcomes.iter().all(Outcome::is_done), "{outcomes:?}");
                events
            })
        })
        .collect();
    let mut sent = Vec::new();
    for task in tasks {
        sent.extend(task.await.expect("no delivery panics").iter().map(|event| event.id().clone()));
    }
    let received = h.received(sent.len()).await.into_iter().map(|message| message.id).collect();
    assert_eq!(sorted(received), sorted(sent));
}

/// Delivery is at least once, so a repeat is not an error.
pub async fn repeated_event_is_taken_again(h: &dyn DestinationHarness) {
    let event = plain();
    let destination = h.destination();
    for attempt in 1..=2 {
        let delivery = Delivery { attempt, ..Delivery::first(event.clone()) };
        let outcome = destination.deliver(&[delivery]).await.remove(0);
        assert!(outcome.is_done(), "attempt {attempt}: {outcome:?}");
    }
    assert!(h.received(1).await.iter().all(|message| message.id == *event.id()));
}

/// Ids repeat if the events of two tables go to one destination: the second event is not a repeat.
pub async fn two_events_with_one_id_both_arrive(h: &dyn DestinationHarness) {
    let id = EventId::uuid_v7();
    let event = |n: u8| Event::builder("Counted").id(id.clone()).json(&n).build().expect("a good event");
    for outcome in deliver(&*h.destination(), &[event(1), event(2)]).await {
        assert!(outcome.is_done(), "{outcome:?}");
    }
    let received = h.received(2).await;
    assert!(received.iter().all(|message| message.id == id), "{received:?}");
    let mut payloads: Vec<&Bytes> = received.iter().map(|message| &message.payload).collect();
    payloads.sort();
    assert_eq!(payloads, ["1", "2"], "{received:?}");
}

// S2-06, S3-120
pub async fn id_key_and_headers_arrive(h: &dyn DestinationHarness) {
    let can = h.capabilities();
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let event = Event::builder("OrderPlaced")
        .aggregate("Order", "o-17")
        .header("region", "eu")
        .header(TRACEPARENT, traceparent)
        .json_text("{}")
        .build()
        .expect("a good event");
    arrive(h, std::slice::from_ref(&event)).await;
    let message = h.received(1).await.remove(0);
    assert_eq!(message.id, *event.id());
    if can.key {
        assert_eq!(message.key.as_deref(), Some("o-17"));
    }
    if can.headers {
        assert_eq!(message.header("region"), Some("eu"));
        let sent = message.header(TRACEPARENT).and_then(|header| TraceContext::parse(header, None));
        let sent = sent.expect("a trace context is sent on");
        let written = TraceContext::parse(traceparent, None).expect("a context");
        assert_eq!(sent.trace_id(), written.trace_id(), "the trace goes on");
        assert_ne!(sent.span_id(), written.span_id(), "in the span of the delivery");
    }
}

pub async fn order_kept_within_a_key(h: &dyn DestinationHarness) {
    const KEYS: usize = 7;
    if !h.capabilities().order {
        println!("skipped: the consumers of this destination see no order");
        return;
    }
    let event = |n: usize| {
        let key = format!("k{}", n % KEYS);
        Event::builder("Ordered").aggregate("Order", &key).json(&n).build().expect("a good event")
    };
    let events: Vec<Event> = (0..500).map(event).collect();
    arrive(h, &events).await;
    let received = h.received(events.len()).await;
    for key in 0..KEYS {
        let of_key = |event: &&Event| event.aggregate_id() == Some(format!("k{key}").as_str());
        let sent: Vec<&EventId> = events.iter().filter(of_key).map(Event::id).collect();
        let seen = received.iter().map(|message| &message.id).filter(|id| sent.contains(id));
        assert_eq!(seen.collect::<Vec<_>>(), sent, "key {key}");
    }
}

pub async fn too_large_is_dead_not_retried(h: &dyn DestinationHarness) {
    let Some(large) = h.too_large() else {
        println!("skipped: nothing is too large for this destination");
        return;
    };
    let outcomes = deliver(&*h.destination(), &[plain(), large, plain()]).await;
    let [Outcome::Done { .. }, Outcome::Dead(reason) | Outcome::Unsendable(reason), Outcome::Done { .. }] =
        outcomes.as_slice()
    else {
        panic!("only the large event is dead: {outcomes:?}");
    };
    assert!(reason.contains("bytes"), "the reason names a size: {reason}");
    assert_eq!(h.received(2).await.len(), 2);
}

/// Every value that a row can hold either arrives unchanged, or the event is dead with a reason.
pub async fn hostile_values_never_panic(h: &dyn DestinationHarness) {
    let destination = h.destination();
    let mut sent = Vec::new();
    for events in hostile_values::events().chunks(50) {
        let outcomes = AssertUnwindSafe(deliver(&*destination, events)).catch_unwind().await;
        let outcomes = outcomes.unwrap_or_else(|_| panic!("a panic among {events:?}"));
        for (event, outcome) in events.iter().zip(outcomes) {
            match outcome {
                Outcome::Done { .. } => sent.push(event.clone()),
                Outcome::Dead(reason) | Outcome::Unsendable(reason) => {
                    assert!(!reason.is_empty() && reason.len() < 1_000, "{event:?}: {reason}");
                    assert!(!reason.chars().any(char::is_control), "{event:?}: {reason:?}");
                }
                // A topic that does not exist: the event may wait for it.
                Outcome::Failed(_) if event.topic().is_some() => {}
                other => panic!("{event:?}: {other:?}"),
            }
        }
    }
    let good = plain();
    let outcome = deliver(&*destination, std::slice::from_ref(&good)).await.remove(0);
    assert!(outcome.is_done(), "other events are delivered: {outcome:?}");
    sent.push(good);
    let received = h.received(sent.len()).await;
    for event in sent {
        let message = received.iter().find(|message| message.id == *event.id());
        let message = message.unwrap_or_else(|| panic!("{event:?} was said to be delivered"));
        assert_eq!(message.payload, event.payload(), "{event:?}");
    }
}

// T10, Invariant 7
pub async fn unreachable_is_not_an_attempt(h: &dyn DestinationHarness) {
    let Some(server) = h.server() else {
        println!("skipped: there is no server that can be stopped");
        return;
    };
    server.start().await;
    let destination = h.destination();
    settle_in(&*destination).await;
    server.stop().await;
    for _ in 0..3 {
        for outcome in deliver(&*destination, &[plain(), plain()]).await {
            assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
        }
    }
    server.start().await;
}

pub async fn delivers_after_broker_restart(h: &dyn DestinationHarness) {
    let Some(server) = h.server() else {
        println!("skipped: there is no server that can be stopped");
        return;
    };
    server.start().await;
    let destination = h.destination();
    let before = settle_in(&*destination).await;
    server.stop().await;
    let outcome = deliver(&*destination, &[plain()]).await.remove(0);
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
    server.start().await;
    let after = settle_in(&*destination).await;
    let received = h.received(2).await;
    for id in [before, after] {
        assert!(received.iter().any(|message| message.id == id), "{id} in {received:?}");
    }
}

/// Delivers one event. A server that has just started may refuse it for a while.
async fn settle_in(destination: &dyn Destination) -> EventId {
    let event = plain();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match deliver(destination, std::slice::from_ref(&event)).await.remove(0) {
            Outcome::Done { .. } => return event.id().clone(),
            outcome => assert!(tokio::time::Instant::now() < deadline, "never delivered: {outcome:?}"),
        }
        tokio::task::yield_now().await;
    }
}
