//! Large events: they are bounded in bytes, and small ones do not starve them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{
    Delivery, Destination, MemoryStore, Outbox, Outcome, Profile, Recorder, Route, Routes, Status,
};
use tokio::time::sleep;

use crate::support::*;

const MIB: usize = 1024 * 1024;

/// Counts the bytes that it is delivering.
#[derive(Clone, Default)]
struct BytesInFlight {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    largest_batch: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

#[async_trait]
impl Destination for BytesInFlight {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let bytes: usize = batch.iter().map(|delivery| delivery.payload().len()).sum();
        let now = self.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.largest_batch.fetch_max(bytes, Ordering::SeqCst);
        sleep(millis(20)).await;
        self.now.fetch_sub(bytes, Ordering::SeqCst);
        self.taken.fetch_add(batch.len(), Ordering::SeqCst);
        batch.iter().map(|_| Outcome::done()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(100)
    }
}

fn insert_large(store: &MemoryStore, bytes: usize) {
    store.insert_raw(RawRow::of_type("Made").with_payload(vec![b' '; bytes])).expect("new");
}

fn start(store: &MemoryStore, destination: &BytesInFlight, queue: QueueConfig) -> Outbox {
    let routes = Routes::new().add(Route::event("Made").deliver_to(destination.clone()));
    let builder = Outbox::builder(FaultyStore::on(store), routes).queue(queue);
    builder.poll_interval(millis(50)).poll_batch(500).start().expect("start")
}

#[tokio::test(start_paused = true)]
async fn concurrent_deliveries_are_bounded_in_bytes() {
    let (store, in_flight) = (MemoryStore::new(), BytesInFlight::default());
    (0..200).for_each(|_| insert_large(&store, MIB));
    let outbox = start(&store, &in_flight, QueueConfig::default().with_bytes(8 * MIB));
    eventually(secs(60), || in_flight.taken.load(Ordering::SeqCst) == 200).await;
    assert!(in_flight.most.load(Ordering::SeqCst) <= 9 * MIB, "{:?}", in_flight.most);
    assert!(in_flight.largest_batch.load(Ordering::SeqCst) <= 4 * MIB, "{:?}", in_flight.largest_batch);
    drop(outbox);
}

#[tokio::test(start_paused = true)]
async fn claims_that_were_cut_by_bytes_follow_each_other_immediately() {
    let (store, in_flight) = (MemoryStore::new(), BytesInFlight::default());
    (0..100).for_each(|_| insert_large(&store, 3 * MIB));
    let routes = Routes::new().add(Route::event("Made").deliver_to(in_flight.clone()));
    let builder = Outbox::builder(FaultyStore::on(&store).without_wake(), routes);
    let outbox = builder.poll_interval(HOUR / 2).poll_batch(500).start().expect("start");
    eventually(secs(60), || in_flight.taken.load(Ordering::SeqCst) == 100).await;
    drop(outbox);
}

/// An event that is larger than the free bytes waits for its turn, not until there is no traffic.
#[tokio::test(start_paused = true)]
async fn large_event_is_delivered_under_steady_traffic_of_small_ones() {
    let (store, in_flight) = (MemoryStore::new(), BytesInFlight::default());
    let queue = QueueConfig::default().with_bytes(2 * MIB);
    let outbox = start(&store, &in_flight, queue);
    (0..500).for_each(|_| insert_large(&store, 10_000));
    insert_large(&store, 3 * MIB);
    let large = store.rows().pop().expect("the large one").id;
    for _ in 0..200 {
        (0..100).for_each(|_| insert_large(&store, 10_000));
        sleep(millis(50)).await;
        if status(&store, &large) == Status::Done {
            break;
        }
    }
    assert_eq!(status(&store, &large), Status::Done);
    drop(outbox);
}

/// An engine that waited for an empty queue would wait for ever if more events come in than go out.
#[tokio::test(start_paused = true)]
async fn large_event_is_delivered_although_the_queue_is_never_empty() {
    let store = MemoryStore::new();
    let slow = Slow::new(millis(100), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let queue = QueueConfig::default().with_bytes(MIB);
    let builder = Outbox::builder(FaultyStore::on(&store), routes).queue(queue).workers(2);
    let outbox = builder.poll_interval(millis(50)).poll_batch(500).start().expect("start");
    (0..50).for_each(|_| insert_large(&store, 40_000));
    sleep(millis(200)).await;
    insert_large(&store, 2 * MIB);
    let large = store.rows().pop().expect("the large one").id;
    for _ in 0..300 {
        (0..3).for_each(|_| insert_large(&store, 40_000));
        sleep(millis(100)).await;
    }
    assert_eq!(status(&store, &large), Status::Done);
    drop(outbox);
}

/// A route with large events and a slow destination leaves room for other routes, in bytes too.
#[tokio::test(start_paused = true)]
async fn large_events_of_a_slow_route_leave_room_for_another() {
    let (store, slow, quick) = (MemoryStore::new(), Gated::new(Recorder::new()), Recorder::new());
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(slow.clone()).concurrency(1))
        .add(Route::event("Small").deliver_to(quick.clone()));
    let queue = QueueConfig::default().with_bytes(8 * MIB);
    let builder = Outbox::builder(FaultyStore::on(&store), routes).queue(queue);
    let outbox = builder.poll_interval(millis(50)).poll_batch(500).start().expect("start");
    (0..200).for_each(|_| insert_large(&store, MIB));
    sleep(secs(2)).await;
    insert_foreign(&store, "Small", 10);
    eventually(secs(5), || quick.count() == 10).await;
    slow.gate.open();
    eventually(secs(120), || slow.inner.count() == 200).await;
    drop(outbox);
}

/// The bytes of a delivery are free when it ends, not when a worker takes it. Only then has a route with large events
/// room for its parked ones.
#[tokio::test(start_paused = true)]
async fn parked_large_events_come_back_when_a_delivery_ends() {
    let (store, in_flight) = (MemoryStore::new(), BytesInFlight::default());
    (0..20).for_each(|_| insert_large(&store, 3 * MIB));
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(in_flight.clone()))
        .add(Route::event("Other").deliver_to(Recorder::new()));
    let queue = QueueConfig::default().with_bytes(8 * MIB);
    let builder = Outbox::builder(FaultyStore::on(&store), routes).queue(queue);
    let outbox = builder.poll_interval(millis(50)).poll_batch(500).start().expect("start");
    eventually(secs(60), || in_flight.taken.load(Ordering::SeqCst) == 20).await;
    drop(outbox);
}

/// Claims that are lost because they take longer than the timeout become smaller until they succeed.
#[tokio::test(start_paused = true)]
async fn large_events_are_delivered_over_a_slow_line() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    (0..100).for_each(|_| insert_large(&store.inner, MIB));
    store.set_bandwidth(MIB);
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let builder = Outbox::builder(store.clone(), routes).store_timeout(secs(3));
    let outbox = builder.poll_interval(millis(50)).start().expect("start");
    eventually(HOUR, || recorder.count() == 100).await;
    drop(outbox);
}
