//! The primary becomes a replica and keeps its clients; its address leads to the new primary.

use std::time::{Duration, Instant};

use posthaste::store::Store as _;
use posthaste::{Outbox, Recorder, Route, Routes};
use posthaste_redis::RedisStore;
use posthaste_testkit::proxy::MovingAddress;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{wait_until, within_timeout};

use crate::errors::claim;
use crate::support::{self, event, url_of};

/// Makes a server a replica of what is at this port.
async fn demote(server: &RedisServer, primary: u16) {
    let mut replicate = redis::cmd("REPLICAOF");
    replicate.arg("127.0.0.1").arg(primary);
    let _: () = replicate.query_async(&mut support::connect(&server.url()).await).await.expect("REPLICAOF");
}

fn engine(store: &RedisStore, poll: Duration) -> (Outbox, Recorder) {
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).lease(Duration::from_secs(2)).poll_interval(poll);
    (outbox.start().expect("a good configuration"), recorder)
}

/// Writes an event as a process does that knows the new primary.
async fn write_at(server: &RedisServer, event_type: &str) -> RedisStore {
    let store = RedisStore::connect(&server.url()).await.expect("it opens");
    let nobody =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    store.writer(&nobody).write(event(event_type, "1")).await.expect("it is stored");
    store
}

/// `follows`: whether the old primary hears of what the new one gets.
async fn deliveries_go_on_at_the_new_primary(follows: bool) {
    let (old, new) = (RedisServer::new(&[]).started().await, RedisServer::new(&[]).started().await);
    let address = MovingAddress::to(old.port()).await;
    let store = RedisStore::connect(&url_of(address.port())).await.expect("it opens");
    let (outbox, recorder) = engine(&store, Duration::from_millis(100));
    write_at(&old, "Before").await;
    within_timeout("the first is delivered", recorder.wait_for(1)).await;
    wait_until("the first is settled", async || {
        store.oldest_pending(None).await.is_ok_and(|age| age.is_none())
    })
    .await;

    demote(&old, if follows { new.port() } else { 1 }).await;
    address.redirect_to(new.port());
    let there = write_at(&new, "After").await;
    within_timeout("the second is delivered", recorder.wait_for(2)).await;
    wait_until("it is settled where it was written", async || {
        there.oldest_pending(None).await.is_ok_and(|age| age.is_none())
    })
    .await;
    let writer = store.writer(&outbox);
    wait_until("the writer has found the new primary", async || {
        writer.write(event("Later", "1")).await.is_ok()
    })
    .await;
    within_timeout("it is delivered", recorder.wait_for(3)).await;
    outbox.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn demoted_primary_is_left_for_the_new_one() {
    deliveries_go_on_at_the_new_primary(true).await;
}

/// Such a server has nothing new, so that nothing is ever due there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn demoted_primary_that_hears_of_nothing_new_is_left_too() {
    deliveries_go_on_at_the_new_primary(false).await;
}

/// Wake-ups come through the new primary as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn wake_up_is_heard_from_the_new_primary() {
    let (old, new) = (RedisServer::new(&[]).started().await, RedisServer::new(&[]).started().await);
    let address = MovingAddress::to(old.port()).await;
    let store = RedisStore::connect(&url_of(address.port())).await.expect("it opens");
    let (outbox, recorder) = engine(&store, Duration::from_secs(3600));
    write_at(&old, "Before").await;
    within_timeout("the wake-up of the old primary is heard", recorder.wait_for(1)).await;
    demote(&old, 1).await;
    address.redirect_to(new.port());
    let writer = store.writer(&outbox);
    wait_until("the store has found the new primary", async || writer.write(event("Own", "1")).await.is_ok())
        .await;
    within_timeout("it is delivered", recorder.wait_for(2)).await;
    let there = RedisStore::connect(&new.url()).await.expect("it opens");
    let nobody =
        Outbox::builder(there.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    let stranger = there.writer(&nobody);
    // The listener connects a moment later, so that the first wake-ups may be missed.
    wait_until("the wake-up of the new primary is heard", async || {
        let before = recorder.count();
        stranger.write(event("After", "1")).await.expect("it is stored");
        tokio::time::timeout(Duration::from_secs(1), recorder.wait_for(before + 1)).await.is_ok()
    })
    .await;
    outbox.shutdown().await;
}

/// A server may refuse to write for hours, and every call would connect anew.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_stays_a_replica_is_not_connected_to_with_every_call() {
    let server = RedisServer::new(&[]).started().await;
    let address = MovingAddress::to(server.port()).await;
    let store = RedisStore::connect(&url_of(address.port())).await.expect("it opens");
    demote(&server, 1).await;
    let (before, since) = (address.accepted(), Instant::now());
    for _ in 0..200 {
        claim(&store).await.expect_err("a replica");
    }
    // Two at a time.
    let connections = (address.accepted() - before) / 2;
    assert!(connections as u64 <= since.elapsed().as_secs() + 1, "{connections} in {:?}", since.elapsed());
}
