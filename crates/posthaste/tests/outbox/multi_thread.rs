//! Tests on real threads and in real time, for what a single paused thread cannot show.

use std::time::Duration;

use posthaste::memory::RawRow;
use posthaste::{
    Event, EventId, MemoryStore, MemoryWriter, Outbox, Outcome, Recorder, RetryPolicy, Route, Routes, Status,
};

const WRITERS: usize = 8;
const TRANSACTIONS_PER_WRITER: usize = 100;
const EVENTS_PER_TRANSACTION: usize = 20;

fn node(store: &MemoryStore, recorder: &Recorder) -> Outbox {
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(recorder.clone()))
        .add(Route::event("Foreign").deliver_to(recorder.clone().publisher(50)));
    Outbox::builder(store.clone(), routes)
        .poll_interval(Duration::from_millis(5))
        .start()
        .expect("a good configuration")
}

async fn commit(store: &MemoryStore, outbox: &Outbox, events: Vec<Event>) -> Vec<EventId> {
    let mut tx = MemoryWriter::new(store, outbox).begin().await.expect("begin");
    let ids = tx.write_all(events).await.expect("write");
    tx.commit().await.expect("commit");
    ids
}

fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| Event::json("Made", &n).expect("a good event")).collect()
}

/// Rows that another program wrote: only the pollers find them.
fn insert_foreign(store: &MemoryStore, count: usize) -> Vec<EventId> {
    let rows = (0..count).map(|_| RawRow::of_type("Foreign"));
    rows.map(|row| {
        let id = row.id.clone();
        store.insert_raw(row);
        id
    })
    .collect()
}

// S2-33, T1: hot path and two pollers every 5 ms
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_deliver_each_of_many_events_exactly_once() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let nodes = [node(&store, &recorder), node(&store, &recorder)];
    let mut written = insert_foreign(&store, 4000);
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (store, outbox) = (store.clone(), nodes[n % nodes.len()].clone());
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..TRANSACTIONS_PER_WRITER {
                    ids.extend(commit(&store, &outbox, events(EVENTS_PER_TRANSACTION)).await);
                }
                ids
            })
        })
        .collect();
    for writer in writers {
        written.extend(writer.await.expect("a writer ends"));
    }

    recorder.wait_for(written.len()).await;
    for node in &nodes {
        node.idle().await.expect("idle");
    }

    let mut delivered = recorder.ids();
    delivered.sort();
    written.sort();
    assert_eq!(delivered, written);
    assert!(store.rows().iter().all(|row| row.status == Status::Done && row.lost_leases == 0));
    assert_eq!((nodes[0].held(), nodes[1].held()), (0, 0));
}

// S2-35: every path of a worker at the same time
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn failures_on_many_threads_end_done_or_dead_and_nothing_stays_held() {
    let store = MemoryStore::new();
    let recorder = Recorder::with(|delivery| match delivery.payload_as::<usize>().unwrap_or(0) % 5 {
        0 if delivery.attempt < 3 => Outcome::retry_after(Duration::from_millis(1), "busy"),
        1 if delivery.attempt < 2 => Outcome::retry("once"),
        2 => Outcome::Dead("never".to_owned()),
        3 if delivery.attempt < 2 => panic!("on purpose"),
        _ => Outcome::done(),
    });
    let retry = RetryPolicy::default().with_base_delay(Duration::from_millis(1));
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder));
    let outbox = Outbox::builder(store.clone(), routes)
        .single_node()
        .poll_interval(Duration::from_millis(5))
        .workers(8)
        .retry(retry)
        .start()
        .expect("a good configuration");

    commit(&store, &outbox, events(2000)).await;
    while store.rows().iter().any(|row| row.status.is_pending()) {
        outbox.idle().await.expect("idle");
        tokio::task::yield_now().await;
    }

    let dead = store.rows().iter().filter(|row| row.status == Status::Dead).count();
    assert_eq!((dead, outbox.held()), (400, 0));
}

// T3: a worker may find its destination gone while the claim is still being placed
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn strict_mode_lets_nothing_overtake_a_head_that_fails_immediately() {
    for _ in 0..50 {
        let store = MemoryStore::new();
        let (tried, passed) = (Recorder::with(|_| Outcome::no_connection("down")), Recorder::new());
        let routes = Routes::new()
            .add(Route::event("Made").deliver_to(tried.clone()))
            .add(Route::event("Foreign").deliver_to(passed.clone()));
        let writer = Outbox::builder(store.clone(), Routes::new())
            .writer_only()
            .build()
            .expect("a good configuration");
        commit(&store, &writer, events(1)).await;
        insert_foreign(&store, 500);
        let outbox =
            Outbox::builder(store, routes).strict().poll_batch(500).start().expect("a good configuration");

        tried.wait_for(1).await;
        outbox.shutdown().await;

        assert_eq!(passed.count(), 0, "the first event was not delivered yet");
    }
}

/// A handler that blocks its thread cannot be stopped. It does not hold up a shutdown for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handler_that_blocks_its_thread_does_not_hang_the_shutdown() {
    let (store, (release, blocked)) = (MemoryStore::new(), std::sync::mpsc::channel::<()>());
    let blocked = std::sync::Mutex::new(blocked);
    let begun = std::sync::Arc::new(tokio::sync::Notify::new());
    let begins = std::sync::Arc::clone(&begun);
    let block = move |_: &posthaste::Delivery| {
        begins.notify_one();
        let _ = blocked.lock().map(|blocked| blocked.recv());
        Outcome::done()
    };
    let routes = Routes::new().add(Route::event("Made").deliver_to(Recorder::with(block)));
    let builder = Outbox::builder(store.clone(), routes).single_node().drain(Duration::from_millis(100));
    let outbox = builder.start().expect("start");
    commit(&store, &outbox, events(1)).await;
    begun.notified().await;
    let report = tokio::time::timeout(Duration::from_secs(60), outbox.shutdown()).await;
    assert_eq!(report.expect("the shutdown ends").abandoned, 1);
    drop(release);
}
