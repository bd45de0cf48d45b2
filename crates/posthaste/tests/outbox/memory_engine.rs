//! The memory store under a running engine: born leases, wake-ups, its clock and its counters.

use std::time::Duration;

use posthaste::memory::{CommitFault, MemoryStore};
use posthaste::store::{Claim, Owner, Store};
use posthaste::writer::NewRow;
use posthaste::{Event, EventId, MemoryWriter, Outbox, Recorder, Route, Routes};
use posthaste_testkit::event;

/// A running engine and its deliveries.
fn running(store: &MemoryStore) -> (Outbox, Recorder) {
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    (Outbox::builder(store.clone(), routes).single_node().start().expect("a good configuration"), recorder)
}

// T1
#[tokio::test(start_paused = true)]
async fn rows_of_a_running_engine_are_born_leased() {
    let store = MemoryStore::new();
    let (outbox, recorder) = running(&store);
    let mut connection = store.connect();
    connection.begin().await.unwrap();
    let writer = MemoryWriter::new(&store, &outbox);
    let receipt = writer.insert(&mut connection, event("leased")).await.unwrap();
    connection.savepoint().await.unwrap();
    let inside = writer.insert(&mut connection, event("in-a-foreign-savepoint")).await.unwrap();
    let delayed =
        Event::builder("Later").deliver_after(Duration::from_secs(30)).json_text("1").build().unwrap();
    connection.release_savepoint().await.unwrap();
    let later = writer.insert(&mut connection, delayed).await.unwrap();
    connection.commit().await.unwrap();
    let locked: Vec<bool> = store.rows().iter().map(|row| row.locked_by.is_some()).collect();
    assert_eq!(locked, [true, false, false]);
    for receipt in [receipt, inside, later] {
        outbox.committed(receipt);
    }
    recorder.wait_for(3).await;
    assert_eq!(recorder.count_of(&EventId::from("leased")), 1);
    outbox.shutdown().await;
}

// T9: the row exists, and the poller delivers it.
#[tokio::test(start_paused = true)]
async fn committed_event_whose_reply_was_lost_is_delivered() {
    let store = MemoryStore::new();
    let (outbox, recorder) = running(&store);
    let mut tx = MemoryWriter::new(&store, &outbox).begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    tx.fail_next_commit(CommitFault::AnswerLostApplied);
    assert!(tx.commit().await.is_err());
    recorder.wait_for(1).await;
    assert_eq!(recorder.ids(), [EventId::from("a")]);
    outbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn aborted_and_undone_events_are_never_delivered() {
    let store = MemoryStore::new();
    let (outbox, recorder) = running(&store);
    let writer = MemoryWriter::new(&store, &outbox);
    let mut aborted = writer.begin().await.unwrap();
    aborted.write(event("aborted")).await.unwrap();
    aborted.abort();
    assert!(aborted.commit().await.is_err());
    let mut tx = writer.begin().await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.write(event("undone")).await.unwrap();
    savepoint.rollback().await.unwrap();
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(recorder.ids(), [EventId::from("kept")]);
    outbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn commit_of_unleased_due_rows_notifies_the_poller() {
    let store = MemoryStore::new();
    let wake = store.wake().unwrap();
    let is_notified = async || tokio::time::timeout(Duration::from_secs(1), wake.notified()).await.is_ok();
    let write = async |row: NewRow| {
        let mut connection = store.connect();
        connection.begin().await.unwrap();
        connection.insert(&[row]).await.unwrap();
        connection.commit().await.unwrap();
    };
    let plain = |id| NewRow::new(event(id));
    write(plain("a")).await;
    assert!(is_notified().await);
    write(plain("a")).await;
    assert!(!is_notified().await, "a duplicate is nothing to claim");
    write(plain("b").with_delay(Some(Duration::from_secs(9)))).await;
    assert!(!is_notified().await, "a delayed row is not due");
    assert!(!is_notified().await);
}

#[tokio::test(start_paused = true)]
async fn clock_follows_tokio_and_can_be_stepped() {
    let store = MemoryStore::new();
    let start = store.now();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(store.now(), start + Duration::from_secs(5));
    store.step_clock(true, Duration::from_secs(10));
    assert_eq!(store.now(), start + Duration::from_secs(15));
    store.step_clock(false, Duration::from_secs(60));
    assert_eq!(store.now(), start - Duration::from_secs(45));
}

#[tokio::test]
async fn writes_are_counted_per_row() {
    let store = MemoryStore::new();
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    let mut tx = MemoryWriter::new(&store, &outbox).begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    tx.commit().await.unwrap();
    let id = EventId::from("a");
    assert_eq!(store.writes(&id), 0);
    let owner = Owner::from("me");
    let claim = Claim::new(&owner, Duration::from_secs(30), 10);
    store.claim(&claim).await.unwrap();
    assert_eq!(store.writes(&id), 1);
    store.claim(&claim).await.unwrap();
    assert_eq!(store.writes(&id), 1, "a claim that finds nothing writes nothing");
}
