//! A store that fails, hangs, loses replies or panics.

use std::sync::Arc;

use posthaste::config::QueueConfig;
use posthaste::{Outcome, Recorder, Route, Routes, Status};
use tokio::time::{sleep, timeout};

use crate::support::*;

// S3-118
#[tokio::test(start_paused = true)]
async fn poller_recovers_from_every_fault_of_a_claim() {
    for fault in [Fault::Fail, Fault::Hang, Fault::Delay(secs(4)), Fault::Delay(secs(12)), Fault::Panic] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
        store.break_call(Call::Claim, fault);
        let ids = insert_foreign(&store.inner, "Made", 120);
        sleep(secs(60)).await;
        store.fix(Call::Claim);
        eventually(secs(30), || recorder.count() >= 120).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
        drop(outbox);
    }
}

// Invariant 1
#[tokio::test(start_paused = true)]
async fn claim_whose_reply_is_lost_costs_a_lease_and_loses_no_event() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let ids = insert_foreign(&store.inner, "Made", 40);
        store.break_next(Call::Claim, fault);
        let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
        eventually(secs(60), || recorder.count() >= 40).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
        drop(outbox);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_reply_to_a_settlement_makes_no_duplicate() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter, Fault::Fail, Fault::Hang, Fault::Delay(secs(5))] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let outbox =
            single_node(&store, routes_to(&recorder)).poll_interval(millis(50)).start().expect("start");
        store.break_next(Call::Settle, fault);
        store.break_next(Call::Settle, fault);
        let ids = commit(&store.inner, &outbox, events("Made", 50)).await;
        eventually(secs(60), || count_in(&store.inner, Status::Done) == 50).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
    }
}

// The consumed token makes repeats harmless
#[tokio::test(start_paused = true)]
async fn lost_reply_to_a_failure_counts_one_attempt() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter] {
        let store = FaultyStore::new();
        let recorder = Recorder::with(|delivery| match delivery.attempt {
            1 => Outcome::retry("first"),
            _ => Outcome::done(),
        });
        let builder = single_node(&store, routes_to(&recorder)).retry(plain_retry(3));
        let outbox = builder.poll_interval(millis(50)).start().expect("start");
        store.break_next(Call::Settle, fault);
        let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
        let took = eventually(secs(60), || count_in(&store.inner, Status::Done) == 20).await;
        assert!(took < secs(25), "{fault:?}: no lease had to lapse, but it took {took:?}");
        assert!(store.inner.rows().iter().all(|row| row.attempts == 1), "{fault:?}");
        assert!(ids.iter().all(|id| recorder.count_of(id) == 2), "{fault:?}");
        drop(outbox);
    }
}

// A store outage must not turn the queue into duplicates
#[tokio::test(start_paused = true)]
async fn nothing_new_starts_while_outcomes_cannot_be_written() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(millis(1), recorder.clone());
    let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
    store.break_call(Call::Settle, Fault::Fail);
    let mut ids = commit(&store.inner, &outbox, events("Made", 100)).await;
    sleep(millis(20)).await;
    let started = recorder.count();
    assert!(started <= 8, "{started} started before the first failure was known");
    ids.extend(commit(&store.inner, &outbox, events("Made", 100)).await);
    sleep(secs(300)).await;
    assert_eq!(recorder.count(), started);
    assert_eq!(count_in(&store.inner, Status::Done), 0);

    store.fix(Call::Settle);
    eventually(secs(10), || count_in(&store.inner, Status::Done) == 200).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}

// "Delivered" is written until shutdown
#[tokio::test(start_paused = true)]
async fn delivered_is_written_until_the_store_is_back() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    store.break_all(Fault::Fail);
    recorder.wait_for(1).await;
    sleep(HOUR * 3).await;
    assert_eq!(status(&store.inner, &id), Status::New);
    store.fix_all();
    eventually(secs(10), || status(&store.inner, &id) == Status::Done).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &[id]);
    drop(outbox);
}

// Any other outcome only until its lease has lapsed
#[tokio::test(start_paused = true)]
async fn failure_that_could_not_be_written_in_time_is_given_up_and_the_event_tried_again() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|_| Outcome::retry("no"));
    let builder = single_node(&store, routes_to(&recorder)).retry(plain_retry(3));
    let outbox = builder.start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    store.break_all(Fault::Fail);
    sleep(secs(120)).await;
    assert_eq!(recorder.count(), 1);
    assert_eq!(outbox.held(), 0, "given up");
    store.fix_all();
    eventually(secs(60), || status(&store.inner, &id) == Status::Dead).await;
    assert_eq!((row(&store.inner, &id).attempts, recorder.count()), (3, 4));
}

// Invariant 1; S0-01
#[tokio::test(start_paused = true)]
async fn store_whose_other_calls_fail_or_panic_still_delivers_everything_once() {
    for call in [Call::Renew, Call::Release, Call::Park, Call::Unpark, Call::OldestPending, Call::Purge] {
        for fault in [Fault::Fail, Fault::LoseAnswer, Fault::Panic, Fault::Delay(secs(2))] {
            let (store, recorder) = (FaultyStore::new(), Recorder::new());
            let slow = Slow::new(millis(700), recorder.clone());
            let routes = Routes::new().add(Route::event("Made").deliver_to(slow));
            let queue = QueueConfig::default().with_hot(5).with_cold(20);
            let outbox =
                single_node(&store, routes).queue(queue).poll_interval(secs(1)).start().expect("start");
            store.break_call(call, fault);
            let mut ids = insert_foreign(&store.inner, "Made", 60);
            ids.extend(commit(&store.inner, &outbox, events("Made", 20)).await);
            sleep(secs(300)).await;
            assert_eq!(count_in(&store.inner, Status::Done), 80, "{call:?} {fault:?}");
            assert_each_once(&recorder, &ids);
            drop(outbox);
        }
    }
}

// Invariant 1: a panic in the store's own code
#[tokio::test(start_paused = true)]
async fn settlement_that_panics_loses_no_event_and_repeats_none() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    store.break_next(Call::Settle, Fault::Panic);
    store.break_next(Call::Settle, Fault::Panic);
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    eventually(secs(120), || count_in(&store.inner, Status::Done) == 20).await;
    timeout(secs(10), outbox.idle()).await.expect("not stuck").expect("idle");
    assert_each_once(&recorder, &ids);
    assert_eq!(outbox.held(), 0);
}

// Invariant 1: a panic while events are parked
#[tokio::test(start_paused = true)]
async fn park_that_panics_or_fails_loses_no_event() {
    for fault in [Fault::Panic, Fault::Fail, Fault::LoseAnswer] {
        let store = FaultyStore::new();
        let up = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let taken = Recorder::new();
        let remote = Recorder::with({
            let up = Arc::clone(&up);
            move |_| match up.load(std::sync::atomic::Ordering::SeqCst) {
                true => Outcome::done(),
                false => Outcome::no_connection("refused"),
            }
        });
        let routes = routes_to(&remote).add(Route::event("Fine").deliver_to(taken.clone()));
        let outbox = single_node(&store, routes).start().expect("start");
        store.break_next(Call::Park, fault);
        store.break_next(Call::Park, fault);
        insert_foreign(&store.inner, "Made", 120);
        let fine = insert_foreign(&store.inner, "Fine", 120);
        sleep(secs(20)).await;
        up.store(true, std::sync::atomic::Ordering::SeqCst);
        eventually(secs(120), || count_in(&store.inner, Status::Done) == 240).await;
        timeout(secs(10), outbox.idle()).await.expect("not stuck").expect("idle");
        assert_each_once(&taken, &fine);
    }
}
