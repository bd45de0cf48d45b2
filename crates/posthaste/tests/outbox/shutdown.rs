//! Shutdown and retirement: what is finished, what goes back to the store, and how long that may take.

use std::collections::BTreeSet;

use posthaste::{
    Config, Delivery, Outbox, Outcome, Recorder, Route, Routes, ShutdownReport, Status, handler,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

// S3-74, S3-85, S3-143
#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_is_queued_within_the_drain() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(millis(100), recorder.clone());
    let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 100)).await;
    let started = Instant::now();
    let report = outbox.shutdown().await;
    assert_eq!((report.released, report.abandoned), (0, 0));
    assert!(started.elapsed() < secs(3), "not longer than the work: {:?}", started.elapsed());
    assert_each_once(&recorder, &ids);
    assert_eq!(count_in(&store.inner, Status::Done), 100);
}

#[tokio::test(start_paused = true)]
async fn retired_outbox_finishes_what_it_began_and_leaves_the_rest_to_the_next() {
    let (store, begun, next) = (FaultyStore::new(), Gated::new(Recorder::new()), Recorder::new());
    let config = || {
        let mut config = Config::relay();
        config.workers = Some(4);
        config
    };
    let old = Outbox::from_config(store.clone(), config(), routes_to(&begun)).start().expect("start");
    let ids = commit(&store.inner, &old, events("Made", 100)).await;
    while begun.gate.entered() < 4 {
        tokio::task::yield_now().await;
    }

    let new = Outbox::from_config(store.clone(), config(), routes_to(&next)).start().expect("start");
    let retiring = tokio::spawn({
        let old = old.clone();
        async move { old.retire().await }
    });
    next.wait_for(96).await;
    assert!(!retiring.is_finished(), "four deliveries have begun");
    begun.gate.open();
    let report = retiring.await.expect("retired");
    assert_eq!((report.released, report.abandoned, begun.inner.count()), (96, 0, 4));

    new.idle().await.expect("idle");
    let all = begun.inner.ids().into_iter().chain(next.ids()).collect::<BTreeSet<_>>();
    assert_eq!((all.len(), begun.inner.count() + next.count()), (ids.len(), ids.len()), "each once");
    assert_eq!(old.retire().await, ShutdownReport::default(), "twice is harmless");
    new.shutdown().await;
}

/// As after a reload that fixes a destination while calls of the old engine still wait for the broken one.
#[tokio::test(start_paused = true)]
async fn events_that_a_retired_outbox_could_not_deliver_are_due_immediately() {
    let (store, next) = (FaultyStore::new(), Recorder::new());
    let hangs = handler(async |_: Delivery| {
        sleep(secs(5)).await;
        Outcome::no_answer("it hangs")
    });
    let config = || {
        let mut config = Config::relay();
        config.workers = Some(4);
        config
    };
    let broken = Routes::new().add(Route::fallback().deliver_to(hangs));
    let old = Outbox::from_config(store.clone(), config(), broken).start().expect("start");
    let ids = commit(&store.inner, &old, events("Made", 8)).await;
    sleep(secs(1)).await;

    let new = Outbox::from_config(store.clone(), config(), routes_to(&next)).start().expect("start");
    old.retire().await;
    timeout(secs(10), next.wait_for(8)).await.expect("none is parked for minutes");
    assert_each_once(&next, &ids);
    new.shutdown().await;
}

// S3-143
#[tokio::test(start_paused = true)]
async fn shutdown_with_a_broken_store_ends_soon_after_the_drain() {
    for fault in [Fault::Fail, Fault::Hang, Fault::Panic] {
        let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
        let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
        insert_foreign(&store.inner, "Made", 100);
        commit(&store.inner, &outbox, events("Made", 20)).await;
        sleep(secs(6)).await;
        store.break_all(fault);
        slow.gate.admit(6);
        sleep(secs(6)).await;
        let started = Instant::now();
        outbox.shutdown().await;
        assert!(started.elapsed() <= secs(7), "{fault:?}: {:?}", started.elapsed());
    }
}

// S3-143, S3-134
#[tokio::test(start_paused = true)]
async fn shutdown_of_strict_mode_ends_soon_after_the_drain() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let outbox = Outbox::builder(store.clone(), routes_to(&slow)).strict().start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    sleep(secs(6)).await;
    let started = Instant::now();
    let report = outbox.shutdown().await;
    assert!(started.elapsed() <= secs(7), "{:?}", started.elapsed());
    assert_eq!((report.released, report.abandoned), (19, 1));

    slow.gate.open();
    let next = Outbox::builder(store.clone(), routes_to(&slow)).strict().start().expect("start");
    sleep(secs(60)).await;
    let mut delivered = slow.inner.ids();
    delivered.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    assert_eq!(delivered, ids, "each once, though the running one comes after its lease");
    drop(next);
}

// S3-143
#[tokio::test(start_paused = true)]
async fn dropped_shutdown_continues() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let outbox = single_node(&store, routes_to(&slow)).workers(1).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 10)).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    assert!(timeout(millis(100), outbox.shutdown()).await.is_err(), "given up by its caller");
    slow.gate.admit(3);
    sleep(secs(10)).await;
    assert_eq!(count_in(&store.inner, Status::Done), 3, "the drain went on");
    let held = store.inner.rows().iter().filter(|row| row.locked_by.is_some()).count();
    assert_eq!(held, 1, "the other events were released; one was running");

    slow.gate.open();
    let next = single_node(&store, routes_to(&slow)).start().expect("start");
    eventually(secs(60), || count_in(&store.inner, Status::Done) == 10).await;
    assert_each_once(&slow.inner, &ids);
    drop((outbox, next));
}
