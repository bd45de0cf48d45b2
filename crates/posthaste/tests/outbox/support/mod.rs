//! Helpers of the engine's tests.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::time::Duration;

use posthaste::memory::RawRow;
pub use posthaste::testing::{Call, Fault, FaultyStore, Gate, Gated, Slow};
use posthaste::{
    Builder, Destination, Event, EventId, EventRow, MemoryStore, MemoryWriter, Outbox, Recorder, RetryPolicy,
    Route, Routes, Status, Store,
};
use tokio::time::{Instant, sleep};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(24 * 3600);

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A builder of the only engine on this store.
pub fn single_node<S>(store: &(impl Store + Clone), routes: Routes<S>) -> Builder {
    Outbox::builder(store.clone(), routes).single_node()
}

/// Delivers events of the type `Made` to this destination.
pub fn routes_to(destination: &(impl Destination + Clone)) -> Routes {
    Routes::new().add(Route::event("Made").deliver_to(destination.clone()))
}

pub fn event(event_type: &str) -> Event {
    Event::json(event_type, &serde_json::json!({})).expect("a good event")
}

pub fn events(event_type: &str, count: usize) -> Vec<Event> {
    (0..count).map(|_| event(event_type)).collect()
}

pub fn ids_of(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id().clone()).collect()
}

/// Writes events in one transaction, through the outbox, and commits.
pub async fn commit(store: &MemoryStore, outbox: &Outbox, events: Vec<Event>) -> Vec<EventId> {
    let mut tx = MemoryWriter::new(store, outbox).begin().await.expect("begin");
    let ids = tx.write_all(events).await.expect("write");
    tx.commit().await.expect("commit");
    ids
}

pub async fn commit_one(store: &MemoryStore, outbox: &Outbox, event_type: &str) -> EventId {
    commit(store, outbox, vec![event(event_type)]).await.remove(0)
}

/// Inserts due rows as another program would: no engine is notified.
pub fn insert_foreign(store: &MemoryStore, event_type: &str, count: usize) -> Vec<EventId> {
    let insert = |_| {
        let raw = RawRow::of_type(event_type);
        let id = raw.id.clone();
        store.insert_raw(raw).expect("a new id");
        id
    };
    (0..count).map(insert).collect()
}

pub fn row(store: &MemoryStore, id: &EventId) -> EventRow {
    store.row(id).unwrap_or_else(|| panic!("no row for {id}"))
}

pub fn status(store: &MemoryStore, id: &EventId) -> Status {
    row(store, id).status
}

pub fn count_in(store: &MemoryStore, status: Status) -> usize {
    store.rows().iter().filter(|row| row.status == status).count()
}

/// Asserts that each of these events was delivered once, and no other event.
#[track_caller]
pub fn assert_each_once(recorder: &Recorder, ids: &[EventId]) {
    assert_same_ids(recorder.ids(), ids.to_vec());
}

#[track_caller]
pub fn assert_same_ids(mut left: Vec<EventId>, mut right: Vec<EventId>) {
    left.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    right.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let repeats = left.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!((left.len(), repeats), (right.len(), 0), "deliveries and repeats among them");
    assert!(left == right, "the ids differ");
}

/// Checks a condition every millisecond of paused time until it holds. Returns how long that took.
#[track_caller]
pub fn eventually(within: Duration, is_so: impl Fn() -> bool) -> impl Future<Output = Duration> {
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() <= within, "not within {within:?}: {caller}");
            sleep(millis(1)).await;
        }
        started.elapsed()
    }
}

/// A policy without jitter, so that the delays are known: 100 ms, 200 ms, 400 ms…
pub fn plain_retry(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::default().with_max_attempts(max_attempts).with_base_delay(millis(100)).without_jitter()
}
