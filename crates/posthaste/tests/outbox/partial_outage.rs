//! A store with several servers, one of which is down.

use posthaste::{Outbox, Recorder, Route, Routes, Status};
use tokio::time::{sleep, timeout};

use crate::support::*;

/// One server is down: its outcomes wait, and no event is delivered again.
#[tokio::test(start_paused = true)]
async fn server_of_a_store_that_is_down_stops_nothing_else() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let builder = Outbox::builder(store.clone(), routes).poll_interval(millis(100));
    let outbox = builder.start().expect("start");
    store.set_part_down(true);
    for n in 1..=5 {
        insert_foreign(&store.inner, "Made", 100);
        eventually(secs(10), || count_in(&store.inner, Status::Done) == 50 * n).await;
        assert_eq!(recorder.count(), 100 * n);
    }
    sleep(secs(120)).await;
    store.set_part_down(false);
    eventually(secs(10), || count_in(&store.inner, Status::Done) == 500).await;
    assert_eq!(recorder.count(), 500, "nothing was delivered twice");
    drop(outbox);
}

/// If one server is down, a shutdown waits no longer than it would if the whole store were down.
#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_ever_for_a_server_that_is_down() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).start().expect("start");
    store.set_part_down(true);
    insert_foreign(&store.inner, "Made", 10);
    eventually(secs(10), || recorder.count() == 10).await;
    timeout(secs(120), outbox.shutdown()).await.expect("it ends");
    assert_eq!(count_in(&store.inner, Status::Done), 5);
}
