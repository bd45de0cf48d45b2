//! Handlers: each of the four forms gets its arguments, and a `Recorder` does not wait for ever.

use std::sync::{Arc, Mutex};

use posthaste::{
    Delivery, Event, HandlerResult, MemoryStore, Outcome, Recorder, Route, Routes, State, Status,
    handler_with,
};

use crate::support::*;

#[derive(serde::Serialize, serde::Deserialize, posthaste::Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
}

/// State of the handlers: the calls that they got.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn add(&self, call: impl Into<String>) {
        self.0.lock().expect("calls").push(call.into());
    }

    fn sorted(&self) -> Vec<String> {
        let mut calls = self.0.lock().expect("calls").clone();
        calls.sort();
        calls
    }
}

async fn mailed(State(calls): State<Calls>, event: Delivery) -> HandlerResult {
    calls.add(format!("{} with state", event.event_type()));
    Ok(())
}

async fn placed(State(calls): State<Calls>, order: OrderPlaced, event: Delivery) -> Outcome {
    calls.add(format!("order {} with state, attempt {}", order.order, event.attempt));
    if event.attempt == 1 { Outcome::retry("busy") } else { Outcome::done() }
}

#[tokio::test(start_paused = true)]
async fn handlers_of_all_four_forms_get_their_state_and_their_payload() {
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let routes = Routes::new()
        .with_state(calls.clone())
        // Neither the plain form nor the typed form takes the state.
        .handle("Plain", async |event: Delivery| assert_eq!(event.event_type(), "Plain"))
        .handle("Typed", async |order: OrderPlaced, event: Delivery| {
            assert_eq!((order.order, event.aggregate_id()), (7, Some("7")));
        })
        .handle("Mailed", mailed)
        .on(placed)
        .add(Route::event("Other").deliver_to(handler_with(calls.clone(), mailed)));
    let outbox = single_node(&store, routes).retry(plain_retry(3)).start().expect("start");
    let typed = Event::builder("Typed").aggregate("Order", "7").json(&OrderPlaced { order: 7 });
    let mut batch = vec![event("Plain"), typed.build().expect("event"), event("Mailed"), event("Other")];
    batch.push(Event::of(&OrderPlaced { order: 17 }).expect("event"));
    commit(&store, &outbox, batch).await;

    eventually(secs(1), || count_in(&store, Status::Done) == 5).await;
    let expected = [
        "Mailed with state",
        "Other with state",
        "order 17 with state, attempt 1",
        "order 17 with state, attempt 2",
    ];
    assert_eq!(calls.sorted(), expected);
    outbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn payload_that_is_not_of_the_handlers_type_makes_the_event_dead() {
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let routes = Routes::new().with_state(calls.clone()).on(placed);
    let outbox = single_node(&store, routes).start().expect("start");
    let wrong = Event::builder("OrderPlaced").aggregate("Order", "1").json_text(r#"{"order":"one"}"#);
    let id = commit(&store, &outbox, vec![wrong.build().expect("event")]).await.remove(0);
    eventually(secs(1), || status(&store, &id) == Status::Dead).await;
    assert_eq!(row(&store, &id).attempts, 0, "another attempt would fail in the same way");
    assert!(calls.sorted().is_empty());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "1 of 2 deliveries came within 60s")]
async fn recorder_fails_after_waiting_for_a_minute() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    commit_one(&store, &outbox, "Made").await;
    let waiting = tokio::time::timeout(secs(61), recorder.wait_for(2));
    waiting.await.expect("the recorder fails by itself");
}
