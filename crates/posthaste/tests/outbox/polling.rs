//! Polls on demand, and rows that a poll leaves out.

use posthaste::{Recorder, Status};
use tokio::time::sleep;

use crate::support::*;

// S0-10, S2-41, S3-90
#[tokio::test(start_paused = true)]
async fn poll_once_claims_one_batch_and_idle_waits_for_all() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).poll_interval(DAY).start().expect("start");
    eventually(secs(1), || store.count(Call::Claim) == 1).await;
    let ids = insert_foreign(&store.inner, "Made", 120);
    assert_eq!(outbox.poll_once().await.expect("poll"), 50);
    sleep(secs(1)).await;
    assert_eq!(recorder.count(), 50);
    outbox.idle().await.expect("idle");
    assert_eq!(count_in(&store.inner, Status::Done), 120);
    assert_each_once(&recorder, &ids);
    assert_eq!(outbox.poll_once().await.expect("poll"), 0);
    outbox.shutdown().await;
    insert_foreign(&store.inner, "Made", 1);
    assert_eq!(outbox.poll_once().await.expect("poll"), 0, "stopped");
}

// S3-92, D9
#[tokio::test(start_paused = true)]
async fn skip_recent_ignores_new_rows_for_a_while() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let builder = single_node(&store, routes_to(&recorder)).skip_recent(secs(10));
    let outbox = builder.poll_interval(secs(1)).start().expect("start");
    insert_foreign(&store.inner, "Made", 5);
    sleep(secs(9)).await;
    assert_eq!(recorder.count(), 0);
    eventually(secs(3), || recorder.count() == 5).await;
    drop(outbox);
}
