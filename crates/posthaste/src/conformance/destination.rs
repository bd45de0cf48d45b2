//! Destinations: every event arrives whole, with its id, and gets its own outcome.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::kit::{named, plain, sorted};
use crate::destination::{Delivery, Destination, Outcome, Source};
use crate::event::{Event, EventId, Limits};

/// One destination under test, with nothing in it yet. Every case gets a fresh one.
#[async_trait]
pub trait DestinationHarness: Send + Sync {
    /// The destination.
    fn destination(&self) -> Arc<dyn Destination>;

    /// What has arrived on the other side, once there are at least `n` messages. Fails after a
    /// while if there never are.
    async fn received(&self, n: usize) -> Vec<Received>;

    /// An event that the destination refuses while it takes others, if there is such a thing.
    fn refused(&self) -> Option<Event>;

    /// Removes what the case left behind; called at its end, also when it failed.
    async fn close(&self);
}

/// One message as its consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The event's id, from wherever this destination carries it.
    pub id: EventId,
    /// The event's payload.
    pub payload: Bytes,
}

fn first_attempt(event: Event) -> Delivery {
    Delivery { event, attempt: 1, replays: 0, source: Source::Cold }
}

/// Delivers in batches as large as the destination likes them; answers every outcome.
async fn deliver(destination: &dyn Destination, events: &[Event]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for batch in events.chunks(destination.profile().batch.max(1)) {
        let batch: Vec<Delivery> = batch.iter().cloned().map(first_attempt).collect();
        let answers = destination.deliver(&batch).await;
        assert_eq!(answers.len(), batch.len(), "one outcome per event");
        outcomes.extend(answers);
    }
    outcomes
}

async fn arrive(h: &dyn DestinationHarness, events: &[Event]) {
    for outcome in deliver(&*h.destination(), events).await {
        assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
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

pub async fn one_outcome_per_event_in_order(h: &dyn DestinationHarness) {
    let Some(refused) = h.refused() else {
        println!("skipped: this destination refuses nothing");
        return;
    };
    let events = [plain(), refused, plain()];
    let outcomes = deliver(&*h.destination(), &events).await;
    let done: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Done)).collect();
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
                assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done)), "{outcomes:?}");
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

/// Delivery is at least once: the second time is no error.
pub async fn repeated_event_is_taken_again(h: &dyn DestinationHarness) {
    let event = plain();
    let destination = h.destination();
    for attempt in 1..=2 {
        let delivery = Delivery { attempt, ..first_attempt(event.clone()) };
        let outcome = destination.deliver(&[delivery]).await.remove(0);
        assert!(matches!(outcome, Outcome::Done), "attempt {attempt}: {outcome:?}");
    }
    assert!(h.received(1).await.iter().all(|message| message.id == *event.id()));
}
