//! The hot path: which rows are born leased, and that each is delivered exactly once.

use std::sync::{Arc, Mutex};

use posthaste::config::QueueConfig;
use posthaste::memory::CommitFault;
use posthaste::{
    Admin, Event, EventId, MemoryStore, MemoryWriter, Outbox, Outcome, Receipt, Recorder, Route, Routes,
    Source, Status, WriterHook,
};
use tokio::time::{Instant, sleep};

use crate::support::*;

const HOT_LEASE_DURATION: std::time::Duration = secs(10);

/// An outbox that polls once an hour unless it is notified.
pub(super) fn quiet_outbox(store: &FaultyStore, recorder: &Recorder) -> Outbox {
    let builder = single_node(store, routes_to(recorder)).poll_interval(HOUR);
    builder.start().expect("start")
}

/// Inserts in a transaction of the service, commits it, and returns the receipt.
async fn insert_and_commit(store: &MemoryStore, outbox: &Outbox, event: Event) -> Receipt {
    let mut connection = store.connect();
    connection.begin().await.expect("begin");
    let receipt = MemoryWriter::new(store, outbox).insert(&mut connection, event).await.expect("insert");
    connection.commit().await.expect("commit");
    receipt
}

pub(super) async fn started(store: &FaultyStore) {
    eventually(secs(1), || store.count(Call::Claim) > 0).await;
}

fn only_id(receipt: &Receipt) -> EventId {
    receipt.id().expect("one event").clone()
}

#[tokio::test(start_paused = true)]
async fn rows_are_born_leased_while_the_engine_runs() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;

    let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
    let born = row(&store.inner, &only_id(&receipt));
    let owner = born.locked_by.expect("leased");
    let pid = format!(":{}#", std::process::id());
    assert!(owner.starts_with("outbox@") && owner.contains(&pid), "operators see who holds it: {owner}");
    let until = born.lease_until.expect("leased");
    assert_eq!(until.since(born.inserted_at), HOT_LEASE_DURATION);
    assert_eq!(born.lost_leases, 0);
}

// S3-72: every reason against it
#[tokio::test(start_paused = true)]
async fn rows_are_born_unleased_before_the_start_and_after_the_stop() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).build().expect("build");
    let before = commit_one(&store.inner, &outbox, "Made").await;
    assert_eq!(row(&store.inner, &before).locked_by, None);
    outbox.start().expect("start");
    outbox.idle().await.expect("idle");

    outbox.shutdown().await;
    let after = insert_and_commit(&store.inner, &outbox, event("Made")).await;
    assert_eq!(row(&store.inner, &only_id(&after)).locked_by, None);
    outbox.committed(after);
    assert_each_once(&recorder, &[before]);
}

// S3-85
#[tokio::test(start_paused = true)]
async fn rows_are_born_unleased_while_the_engine_is_stopping() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || slow.gate.entered() == 1).await;

    let stopping = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.shutdown().await }
    });
    sleep(millis(10)).await;
    let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
    assert_eq!(row(&store.inner, &only_id(&receipt)).locked_by, None);
    slow.gate.open();
    stopping.await.expect("shutdown");
}

// S3-60, S3-113
#[tokio::test(start_paused = true)]
async fn delayed_event_is_born_unleased_and_delivered_at_its_time() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let delayed = Event::builder("Made").json(&1).deliver_after(secs(60)).build().expect("event");
    let id = commit(&store.inner, &outbox, vec![delayed]).await.remove(0);

    assert_eq!(row(&store.inner, &id).locked_by, None);
    sleep(secs(59)).await;
    assert_eq!(recorder.count(), 0);
    eventually(secs(7), || recorder.count() == 1).await;
    assert_eq!(recorder.deliveries()[0].source, Source::Cold);
}

#[tokio::test(start_paused = true)]
async fn rows_are_born_unleased_when_the_hot_queue_is_more_than_three_quarters_full() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let queue = QueueConfig::default().with_hot(8);
    let outbox =
        single_node(&store, routes).workers(1).queue(queue).poll_interval(HOUR).start().expect("start");
    let mut ids = vec![commit_one(&store.inner, &outbox, "Made").await];
    eventually(secs(1), || slow.gate.entered() == 1).await;

    let mut leased = Vec::new();
    for _ in 0..10 {
        let receipt = insert_and_commit_now(&store.inner, &outbox, &mut ids).await;
        leased.push(receipt);
    }
    assert_eq!(leased, [true, true, true, true, true, true, true, false, false, false]);
    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &ids);
}

/// Commits one event. Returns whether its row was born leased.
async fn insert_and_commit_now(store: &MemoryStore, outbox: &Outbox, ids: &mut Vec<EventId>) -> bool {
    let mut tx = MemoryWriter::new(store, outbox).begin().await.expect("begin");
    let id = tx.write(event("Made")).await.expect("write").expect("not suppressed");
    tx.commit().await.expect("commit");
    ids.push(id.clone());
    row(store, &id).locked_by.is_some()
}

#[tokio::test(start_paused = true)]
async fn rows_are_born_unleased_while_their_route_is_paused() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = routes_to(&recorder).add(Route::event("Other").deliver_to(recorder.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    store.inner.pause("Made", "test").await.expect("pause");
    outbox.poll_once().await.expect("poll");

    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let paused = tx.write(event("Made")).await.expect("write").expect("id");
    let open = tx.write(event("Other")).await.expect("write").expect("id");
    tx.commit().await.expect("commit");
    assert_eq!(row(&store.inner, &paused).locked_by, None);
    assert!(row(&store.inner, &open).locked_by.is_some());
    outbox.idle().await.expect("idle");
    assert_each_once(&recorder, &[open]);
}

// Invariant 7
#[tokio::test(start_paused = true)]
async fn rows_are_born_unleased_while_the_breaker_of_their_route_is_open() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|_| Outcome::no_connection("refused"));
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let first = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || row(&store.inner, &first).last_error.is_some()).await;

    let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
    assert_eq!(row(&store.inner, &only_id(&receipt)).locked_by, None);
}

// T12
#[tokio::test(start_paused = true)]
async fn row_in_a_foreign_savepoint_is_unleased_and_its_receipt_only_a_wake_up() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let writer = MemoryWriter::new(&store.inner, &outbox);
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    connection.savepoint().await.expect("savepoint");
    let kept = writer.insert(&mut connection, event("Made")).await.expect("insert");
    connection.release_savepoint().await.expect("release");
    connection.savepoint().await.expect("savepoint");
    let undone = writer.insert(&mut connection, event("Made")).await.expect("insert");
    connection.rollback_to_savepoint().await.expect("rollback");
    connection.commit().await.expect("commit");

    let id = only_id(&kept);
    assert_eq!(row(&store.inner, &id).locked_by, None);
    outbox.committed(undone);
    outbox.committed(kept);
    eventually(secs(1), || recorder.count() == 1).await;
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, &[id]);
    assert_eq!(recorder.deliveries()[0].source, Source::Cold);
}

// T12
#[tokio::test(start_paused = true)]
async fn savepoint_of_a_tx_passes_its_events_up_unless_it_is_rolled_back() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let outer = tx.write(event("Made")).await.expect("write").expect("id");
    let mut savepoint = tx.savepoint().await.expect("savepoint");
    let released = savepoint.write(event("Made")).await.expect("write").expect("id");
    let mut inner = savepoint.savepoint().await.expect("savepoint");
    inner.write(event("Made")).await.expect("write");
    drop(inner);
    savepoint.release().await.expect("release");
    let mut savepoint = tx.savepoint().await.expect("savepoint");
    savepoint.write(event("Made")).await.expect("write");
    savepoint.rollback().await.expect("rollback");
    tx.commit().await.expect("commit");

    recorder.wait_for(2).await;
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, &[outer, released]);
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    assert_eq!(store.inner.len(), 2);
}

// T12
#[tokio::test(start_paused = true)]
async fn event_undone_by_a_raw_savepoint_inside_a_tx_is_never_delivered() {
    let (store, recorder, hooks) = (FaultyStore::new(), Recorder::new(), HookedIds::default());
    let outbox = single_node(&store, routes_to(&recorder)).hook(hooks.clone()).start().expect("start");
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let kept = tx.write(event("Made")).await.expect("write").expect("id");
    tx.savepoint_raw().await;
    let undone = tx.write(event("Made")).await.expect("write").expect("id");
    tx.rollback_to_savepoint().await.expect("rollback");
    tx.commit().await.expect("commit");

    sleep(HOUR).await;
    assert_each_once(&recorder, std::slice::from_ref(&kept));
    assert_eq!(hooks.committed(), [kept]);
    assert_eq!(hooks.rolled_back(), [undone]);
}

/// A savepoint that the transaction does not know of, as when `SAVEPOINT` is sent by hand.
trait RawSavepoint {
    async fn savepoint_raw(&mut self);
}

impl RawSavepoint for posthaste::memory::MemoryTx {
    async fn savepoint_raw(&mut self) {
        posthaste::memory::MemoryConnection::savepoint(self).await.expect("savepoint");
    }
}

// No path waits longer than the hot lease
#[tokio::test(start_paused = true)]
async fn commit_with_little_lease_left_is_a_wake_up_and_delivered_once() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let id = tx.write(event("Made")).await.expect("write").expect("id");
    sleep(secs(7)).await;
    tx.commit().await.expect("commit");

    let took = eventually(secs(4), || recorder.count() == 1).await;
    assert!(took < millis(100), "woken, not waiting: {took:?}");
    assert_eq!(recorder.deliveries()[0].source, Source::Cold);
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, &[id]);
}

#[tokio::test(start_paused = true)]
async fn commit_with_enough_lease_left_is_hot() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let id = tx.write(event("Made")).await.expect("write").expect("id");
    sleep(secs(6)).await;
    tx.commit().await.expect("commit");

    eventually(millis(100), || recorder.count() == 1).await;
    assert_eq!(recorder.deliveries()[0].source, Source::Hot);
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, &[id]);
}

#[tokio::test(start_paused = true)]
async fn transaction_that_outlives_the_hot_lease_is_delivered_once() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let id = tx.write(event("Made")).await.expect("write").expect("id");
    sleep(secs(60)).await;
    tx.commit().await.expect("commit");
    eventually(secs(6), || recorder.count() == 1).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &[id]);
}

// A dropped receipt
#[tokio::test(start_paused = true)]
async fn dropped_receipt_is_released_after_a_second() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
    let id = only_id(&receipt);
    drop(receipt);

    let took = eventually(HOT_LEASE_DURATION, || recorder.count() == 1).await;
    assert!((millis(900)..millis(1200)).contains(&took), "{took:?}");
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, std::slice::from_ref(&id));
    assert_eq!(row(&store.inner, &id).lost_leases, 0, "given back, not lost");
}

// If the list is full, the lease lapses
#[tokio::test(start_paused = true)]
async fn dropped_receipts_beyond_the_bound_are_all_delivered_within_the_hot_lease() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder))
        .poll_interval(millis(500))
        .poll_batch(1000)
        .start()
        .expect("start");
    started(&store).await;
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    let batch = events("Made", 12_000);
    let ids = ids_of(&batch);
    let receipt =
        MemoryWriter::new(&store.inner, &outbox).insert_all(&mut connection, batch).await.expect("insert");
    connection.commit().await.expect("commit");
    drop(receipt);

    sleep(secs(2)).await;
    let early = recorder.count();
    assert!((10_000..12_000).contains(&early), "{early}");
    eventually(HOT_LEASE_DURATION, || recorder.count() >= 12_000).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}

// The commit is looked up
#[tokio::test(start_paused = true)]
async fn committed_by_the_caller_is_confirmed_by_one_read_and_delivered_hot() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    let batch = events("Made", 20);
    let ids = ids_of(&batch);
    let receipt =
        MemoryWriter::new(&store.inner, &outbox).insert_all(&mut connection, batch).await.expect("insert");
    connection.commit().await.expect("commit");
    outbox.committed(receipt);

    eventually(millis(100), || recorder.count() == 20).await;
    assert_eq!(store.count(Call::Renew), 1, "one read for all of them");
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    sleep(HOUR * 2).await;
    assert_each_once(&recorder, &ids);
}

// Invariant 1
#[tokio::test(start_paused = true)]
async fn commit_reported_too_early_delivers_nothing_until_it_happens() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    started(&store).await;
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    let receipt = MemoryWriter::new(&store.inner, &outbox)
        .insert(&mut connection, event("Made"))
        .await
        .expect("insert");
    let id = only_id(&receipt);
    outbox.committed(receipt);
    sleep(secs(3)).await;
    assert_eq!(recorder.count(), 0, "not committed yet");

    connection.commit().await.expect("commit");
    eventually(HOT_LEASE_DURATION + secs(5), || recorder.count() == 1).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &[id]);
}

// Invariant 1
#[tokio::test(start_paused = true)]
async fn committed_after_a_rollback_delivers_nothing() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    started(&store).await;
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    let receipt = MemoryWriter::new(&store.inner, &outbox)
        .insert(&mut connection, event("Made"))
        .await
        .expect("insert");
    connection.rollback().await.expect("rollback");
    outbox.committed(receipt);
    sleep(HOUR).await;
    assert_eq!(recorder.count(), 0);
    assert!(store.inner.is_empty());
}

// The proof
#[tokio::test(start_paused = true)]
async fn aborted_transaction_whose_commit_returns_ok_delivers_nothing() {
    let (store, recorder, hooks) = (FaultyStore::new(), Recorder::new(), HookedIds::default());
    let outbox = single_node(&store, routes_to(&recorder)).hook(hooks.clone()).start().expect("start");
    started(&store).await;
    let mut connection = store.inner.connect();
    connection.begin().await.expect("begin");
    let receipt = MemoryWriter::new(&store.inner, &outbox)
        .insert(&mut connection, event("Made"))
        .await
        .expect("insert");
    connection.abort();
    connection.commit().await.expect("PostgreSQL says Ok, and stores nothing");
    outbox.committed(receipt);

    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let aborted = tx.write(event("Made")).await.expect("write").expect("id");
    tx.abort();
    tx.commit().await.expect_err("the proof finds out");

    sleep(HOUR).await;
    assert_eq!(recorder.count(), 0);
    assert_eq!(hooks.rolled_back(), [aborted]);
}

// T9
#[tokio::test(start_paused = true)]
async fn lost_reply_to_commit_runs_no_hook_and_is_delivered_only_if_it_applied() {
    for (fault, deliveries) in [(CommitFault::AnswerLostApplied, 1), (CommitFault::AnswerLostNotApplied, 0)] {
        let (store, recorder, hooks) =
            (FaultyStore::new().without_wake(), Recorder::new(), HookedIds::default());
        let builder = single_node(&store, routes_to(&recorder)).hook(hooks.clone()).poll_interval(HOUR);
        let outbox = builder.start().expect("start");
        started(&store).await;
        let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
        tx.write(event("Made")).await.expect("write");
        tx.fail_next_commit(fault);
        tx.commit().await.expect_err("the reply was lost");

        sleep(HOT_LEASE_DURATION).await;
        assert_eq!(recorder.count(), deliveries, "{fault:?}: released after a second");
        sleep(HOUR * 2).await;
        assert_eq!(recorder.count(), deliveries, "{fault:?}");
        assert!(hooks.committed().is_empty() && hooks.rolled_back().is_empty(), "{fault:?}");
    }
}

// T9
#[tokio::test(start_paused = true)]
async fn commit_that_the_server_rolls_back_delivers_nothing() {
    let (store, recorder, hooks) = (FaultyStore::new(), Recorder::new(), HookedIds::default());
    let outbox = single_node(&store, routes_to(&recorder)).hook(hooks.clone()).start().expect("start");
    let mut tx = MemoryWriter::new(&store.inner, &outbox).begin().await.expect("begin");
    let id = tx.write(event("Made")).await.expect("write").expect("id");
    tx.fail_next_commit(CommitFault::RolledBack);
    tx.commit().await.expect_err("rolled back");
    sleep(HOUR).await;
    assert_eq!(recorder.count(), 0);
    assert_eq!(hooks.rolled_back(), [id]);
    assert!(hooks.committed().is_empty());
}

// The lease renewer renews while an event waits
#[tokio::test(start_paused = true)]
async fn lease_of_an_event_that_waits_longer_than_it_is_renewed() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(secs(50), recorder.clone());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow));
    let outbox = single_node(&store, routes).workers(1).poll_interval(millis(100)).start().expect("start");
    let other = Outbox::builder(store.clone(), routes_to(&recorder)).poll_interval(millis(100));
    let other = other.start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 5)).await;

    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    assert!(store.inner.rows().iter().all(|row| row.lost_leases == 0 && row.status == Status::Done));
    drop(other);
}

// S2-33, S3-75, S3-88, T1
#[tokio::test(start_paused = true)]
async fn event_that_waits_hot_is_not_run_again_by_the_poller() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = single_node(&store, routes).workers(1).poll_interval(millis(2)).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 50)).await;
    sleep(secs(25)).await;
    slow.gate.open();
    sleep(secs(60)).await;
    assert_each_once(&slow.inner, &ids);
}

// T1
#[tokio::test(start_paused = true)]
async fn hot_event_whose_lease_lapses_in_the_queue_is_still_delivered_once() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = single_node(&store, routes).workers(1).poll_interval(millis(5)).start().expect("start");
    store.break_call(Call::Renew, Fault::Fail);
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    sleep(secs(25)).await;
    slow.gate.open();
    sleep(secs(120)).await;
    assert_each_once(&slow.inner, &ids);
    assert_eq!(count_in(&store.inner, Status::Done), 20);
}

// No path waits longer than the hot lease
#[tokio::test(start_paused = true)]
async fn confirmation_that_fails_or_loses_its_reply_delays_no_longer_than_the_hot_lease() {
    for fault in [Fault::Fail, Fault::LoseAnswer] {
        let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
        let outbox =
            single_node(&store, routes_to(&recorder)).poll_interval(millis(100)).start().expect("start");
        started(&store).await;
        store.break_next(Call::Renew, fault);
        let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
        let id = only_id(&receipt);
        outbox.committed(receipt);

        eventually(HOT_LEASE_DURATION + millis(200), || recorder.count() == 1).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &[id]);
    }
}

// Invariant 2; S2-05
#[tokio::test(start_paused = true)]
async fn poller_alone_delivers_everything_without_the_hot_path() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    started(&store).await;
    let mut receipts = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..300 {
        let receipt = insert_and_commit(&store.inner, &outbox, event("Made")).await;
        ids.push(only_id(&receipt));
        receipts.push(receipt);
        sleep(millis(10)).await;
    }
    std::mem::forget(receipts);

    let started = Instant::now();
    eventually(HOT_LEASE_DURATION + secs(5), || recorder.count() >= 300).await;
    assert!(started.elapsed() <= HOT_LEASE_DURATION + secs(5));
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Cold));
}

/// Records the calls of the writer's hooks, by id.
#[derive(Clone, Default)]
struct HookedIds(Arc<Mutex<(Vec<EventId>, Vec<EventId>)>>);

impl HookedIds {
    fn committed(&self) -> Vec<EventId> {
        self.0.lock().expect("hook calls").0.clone()
    }

    fn rolled_back(&self) -> Vec<EventId> {
        self.0.lock().expect("hook calls").1.clone()
    }
}

impl WriterHook for HookedIds {
    fn after_commit(&self, events: &[Event]) {
        self.0.lock().expect("hook calls").0.extend(ids_of(events));
    }

    fn after_rollback(&self, events: &[Event]) {
        self.0.lock().expect("hook calls").1.extend(ids_of(events));
    }
}
