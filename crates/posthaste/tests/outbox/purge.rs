//! The purger: what it deletes, and when.

use posthaste::config::{PurgeConfig, Retention};
use posthaste::memory::RawRow;
use posthaste::store::OnDone;
use posthaste::{Outbox, Outcome, Recorder, Route, Routes, Status};
use tokio::time::sleep;

use crate::support::*;

// S3-122, S3-123, S3-126, T6, D17, D18
#[tokio::test(start_paused = true)]
async fn done_rows_are_purged_after_seven_days_and_dead_rows_stay() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = routes_to(&recorder)
        .add(Route::event("Bad").deliver_to(Recorder::with(|_| Outcome::Dead("rejected".to_owned()))));
    let outbox = single_node(&store, routes).poll_interval(HOUR).start().expect("start");
    let long_ago = store.inner.now() - DAY * 30;
    for event_type in ["Made", "Bad"] {
        for _ in 0..600 {
            let raw = RawRow::of_type(event_type).with_created_at(long_ago).with_inserted_at(long_ago);
            store.inner.insert_raw(raw);
        }
    }
    outbox.idle().await.expect("idle");
    sleep(DAY * 6).await;
    assert_eq!(store.inner.len(), 1200, "old when they were delivered, but delivered just now");
    sleep(DAY + HOUR * 2).await;
    assert_eq!((count_in(&store.inner, Status::Done), count_in(&store.inner, Status::Dead)), (0, 600));
    sleep(DAY * 60).await;
    assert_eq!(count_in(&store.inner, Status::Dead), 600, "a dead event does not vanish by itself");
}

// S3-122, S3-126, S3-127, D17
#[tokio::test(start_paused = true)]
async fn retention_can_be_set_per_status_and_purge_once_returns_how_many() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = routes_to(&recorder)
        .add(Route::event("Bad").deliver_to(Recorder::with(|_| Outcome::Dead("no".to_owned()))));
    let purge = PurgeConfig::default()
        .with_done(Retention::archive_after(secs(60)))
        .with_dead(Retention::delete_after(secs(120)))
        .with_batch(7)
        .with_interval(DAY);
    let outbox = single_node(&store, routes).purge(purge).start().expect("start");
    let mut batch = events("Made", 30);
    batch.extend(events("Bad", 20));
    commit(&store.inner, &outbox, batch).await;
    outbox.idle().await.expect("idle");
    assert_eq!(outbox.purge_once().await.expect("purge"), 0);
    sleep(secs(61)).await;
    let before = store.count(Call::Purge);
    assert_eq!(outbox.purge_once().await.expect("purge"), 30);
    assert_eq!(store.count(Call::Purge) - before, 5 + 1, "batches of seven until one is short");
    sleep(secs(60)).await;
    assert_eq!(outbox.purge_once().await.expect("purge"), 20);
    assert!(store.inner.is_empty());
}

#[tokio::test(start_paused = true)]
async fn delivered_rows_can_be_deleted_immediately() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let purge = PurgeConfig::default().with_on_done(OnDone::Delete);
    let outbox = single_node(&store, routes_to(&recorder)).purge(purge).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 30)).await;
    outbox.idle().await.expect("idle");
    assert!(store.inner.is_empty());
    assert_each_once(&recorder, &ids);
}

// S3-130, S3-140
#[tokio::test(start_paused = true)]
async fn writer_only_purges_by_age_whatever_the_status() {
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(DAY, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    sleep(DAY - HOUR).await;
    let late = commit(&store.inner, &outbox, events("Made", 1)).await;
    sleep(HOUR * 3).await;
    assert_eq!(store.inner.rows().into_iter().map(|row| row.id).collect::<Vec<_>>(), late);
}

// S3-128
#[tokio::test(start_paused = true)]
async fn purger_continues_after_a_failure() {
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(DAY, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    store.break_call(Call::Purge, Fault::Fail);
    sleep(DAY * 2).await;
    assert_eq!(store.inner.len(), 10);
    store.break_call(Call::Purge, Fault::Panic);
    sleep(DAY).await;
    store.fix(Call::Purge);
    sleep(HOUR * 2).await;
    assert!(store.inner.is_empty());
}
