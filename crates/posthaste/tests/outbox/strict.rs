//! Strict mode: whatever happens, no event overtakes an older one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste::config::{Config, Mode, QueueConfig};
use posthaste::store::{Purge, Purgeable, Store};
use posthaste::{Admin as _, Event, EventId, MemoryStore, Outbox, Outcome, Recorder, Route, Routes, Status};
use tokio::time::Instant;

use crate::support::{Call, Fault, FaultyStore, Gated, Slow, commit, eventually, millis, secs};

/// Two event types of one aggregate on two routes; both lead to the same recorder.
fn two_routes(recorder: &Recorder) -> Routes {
    Routes::new()
        .add(Route::event("Placed").deliver_to(recorder.clone()))
        .add(Route::event("Paid").deliver_to(recorder.clone()))
}

fn mixed(count: usize) -> Vec<Event> {
    let types = ["Placed", "Placed", "Paid", "Placed", "Paid", "Paid"];
    (0..count).map(|n| Event::json(types[n % types.len()], &n).expect("a good event")).collect()
}

async fn write(store: &MemoryStore, events: Vec<Event>) -> Vec<EventId> {
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good outbox");
    commit(store, &outbox, events).await
}

// S3-134, S3-136
#[tokio::test(start_paused = true)]
async fn events_of_different_routes_keep_their_order() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let written = write(&store, mixed(60)).await;
    let outbox =
        Outbox::builder(store.clone(), two_routes(&recorder)).strict().poll_batch(7).start().expect("start");

    outbox.idle().await.expect("idle");

    assert_eq!(recorder.ids(), written);
}

// S3-134
#[tokio::test(start_paused = true)]
async fn batching_destination_gets_one_event_at_a_time() {
    let store = MemoryStore::new();
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let recorder = Recorder::with(move |delivery| {
        // Only the first event is refused: in a batch the second one would overtake it.
        match delivery.payload_as::<usize>() {
            Ok(0) if is_down.load(Ordering::SeqCst) => Outcome::no_answer("silence"),
            _ => Outcome::done(),
        }
    })
    .publisher(10);
    let written = write(&store, mixed(10)).await;
    let outbox = Outbox::builder(store.clone(), two_routes(&recorder)).strict().start().expect("start");

    recorder.wait_for(3).await;
    assert!(recorder.ids().iter().all(|id| *id == written[0]), "nothing may pass the first event");
    down.store(false, Ordering::SeqCst);
    eventually(secs(60), || recorder.count_of(&written[9]) == 1).await;

    let mut order = recorder.ids();
    order.dedup();
    assert_eq!(order, written);
    outbox.shutdown().await;
}

// T3
#[tokio::test(start_paused = true)]
async fn nothing_overtakes_the_events_of_a_crashed_engine() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let blocked = Gated::new(Recorder::new());
    let routes = Routes::new().add(Route::pattern("*").deliver_to(blocked.clone()));
    let written = write(&store, mixed(6)).await;
    let first = Outbox::builder(store.clone(), routes).strict().poll_batch(2).start().expect("start");
    eventually(secs(1), || blocked.gate.entered() == 1).await;
    first.abort();

    let second = Outbox::builder(store.clone(), two_routes(&recorder)).strict().start().expect("start");
    eventually(secs(60), || recorder.count() == 6).await;

    assert_eq!(recorder.ids(), written);
    second.shutdown().await;
}

// Invariant 7
#[tokio::test(start_paused = true)]
async fn outage_pauses_everything_and_loses_no_order_and_no_attempt() {
    let store = MemoryStore::new();
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let recorder = Recorder::with(move |_| {
        if is_down.load(Ordering::SeqCst) { Outcome::no_connection("refused") } else { Outcome::done() }
    });
    let written = write(&store, mixed(30)).await;
    let outbox = Outbox::builder(store.clone(), two_routes(&recorder)).strict().start().expect("start");

    tokio::time::sleep(secs(120)).await;
    assert!(recorder.ids().iter().all(|id| *id == written[0]), "only the first event may be tried");
    let refused = recorder.count();
    down.store(false, Ordering::SeqCst);
    eventually(secs(60), || recorder.count() == refused + 30).await;

    assert_eq!(recorder.ids()[refused..], written);
    outbox.idle().await.expect("idle");
    assert!(store.rows().iter().all(|row| row.status == Status::Done && row.attempts == 0));
}

#[tokio::test(start_paused = true)]
async fn pause_of_one_route_holds_everything_behind_it() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    store.pause("Paid", "operator").await.expect("pause");
    let written = write(&store, mixed(12)).await;
    let outbox = Outbox::builder(store.clone(), two_routes(&recorder)).strict().start().expect("start");

    tokio::time::sleep(secs(120)).await;
    assert!(recorder.ids().iter().all(|id| written[..2].contains(id)), "the third event is paused");
    store.resume("Paid", "operator").await.expect("resume");
    eventually(secs(60), || recorder.count() == 12).await;

    assert_eq!(recorder.ids(), written);
    outbox.shutdown().await;
}

// T3: a settlement that cannot be written holds back the next batch.
#[tokio::test(start_paused = true)]
async fn nothing_overtakes_an_event_that_the_store_cannot_settle() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let written = write(&store.inner, mixed(9)).await;
    store.break_call(Call::Settle, Fault::Fail);
    let outbox =
        Outbox::builder(store.clone(), two_routes(&recorder)).strict().poll_batch(3).start().expect("start");

    tokio::time::sleep(secs(300)).await;
    store.fix(Call::Settle);
    outbox.idle().await.expect("idle");

    let mut order = recorder.ids();
    let mut seen = std::collections::HashSet::new();
    order.retain(|id| seen.insert(id.clone()));
    assert_eq!(order, written, "first deliveries are in order");
}

#[tokio::test(start_paused = true)]
async fn shutdown_takes_no_longer_than_its_drain() {
    let store = MemoryStore::new();
    let blocked = Gated::new(Recorder::new());
    let routes = Routes::new().add(Route::pattern("*").deliver_to(blocked.clone()));
    write(&store, mixed(6)).await;
    let outbox = Outbox::builder(store.clone(), routes).strict().drain(secs(5)).start().expect("start");
    eventually(secs(1), || blocked.gate.entered() == 1).await;

    let started = Instant::now();
    let report = outbox.shutdown().await;

    assert!(started.elapsed() < secs(7), "took {:?}", started.elapsed());
    assert_eq!((report.released, report.abandoned), (5, 1));
}

// Two engines by mistake: they take turns, and the order holds.
#[tokio::test(start_paused = true)]
async fn second_strict_engine_waits_for_the_first() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let written = write(&store, mixed(100)).await;
    let engines: Vec<Outbox> = (0..2)
        .map(|_| {
            Outbox::builder(store.clone(), two_routes(&recorder))
                .strict()
                .poll_batch(3)
                .start()
                .expect("start")
        })
        .collect();

    eventually(secs(600), || recorder.count() == 100).await;

    assert_eq!(recorder.ids(), written);
    for engine in engines {
        engine.shutdown().await;
    }
}

// Invariant 4: a probe that is due behind a paused event does not spin.
#[tokio::test(start_paused = true)]
async fn paused_head_in_front_of_a_probe_does_not_spin() {
    let store = FaultyStore::new();
    let down = Recorder::with(|_| Outcome::no_connection("refused"));
    let routes = Routes::new()
        .add(Route::event("Placed").deliver_to(down))
        .add(Route::event("Paid").deliver_to(Recorder::new()));
    write(&store.inner, mixed(1)).await;
    let outbox = Outbox::builder(store.clone(), routes).strict().start().expect("start");
    tokio::time::sleep(secs(3)).await;
    write(&store.inner, vec![Event::json("Paid", "x").expect("a good event")]).await;
    store.inner.pause("Paid", "operator").await.expect("pause");
    let everything = Purge::new(Purgeable::Any, secs(2), 1);
    assert_eq!(store.inner.purge_batch(&everything).await.expect("purge"), 1);

    let before = store.count(Call::Claim);
    tokio::time::sleep(secs(600)).await;

    let claims = store.count(Call::Claim) - before;
    assert!(claims < 400, "{claims} claims in ten minutes");
    outbox.shutdown().await;
}

// T3: a full queue does not admit a smaller event before a larger one.
#[tokio::test(start_paused = true)]
async fn small_event_does_not_overtake_a_large_one_that_does_not_fit() {
    let store = MemoryStore::new();
    let slow = Slow::new(millis(100), Recorder::new());
    let sized = |bytes| Event::json("Placed", &"x".repeat(bytes)).expect("a good event");
    let written = write(&store, vec![sized(1000), sized(1400), sized(10)]).await;
    let mut config = Config::default();
    config.mode = Mode::Strict;
    config.payload_bytes = 1500;
    config.queue = QueueConfig::default().with_bytes(2000);
    let routes = Routes::new().add(Route::event("Placed").deliver_to(slow.clone()));
    let outbox = Outbox::from_config(store.clone(), config, routes).start().expect("start");

    eventually(secs(60), || slow.inner.count() == 3).await;

    assert_eq!(slow.inner.ids(), written);
    outbox.shutdown().await;
}
