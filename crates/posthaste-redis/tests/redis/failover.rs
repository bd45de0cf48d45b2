//! Failover: the primary becomes a replica and keeps its clients, and its address leads to the new primary.

use std::time::{Duration, Instant};

use posthaste::store::Store as _;
use posthaste::{Outbox, Recorder};
use posthaste_redis::{RedisStore, RedisWriter};
use posthaste_testkit::proxy::MovingAddress;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{wait_until, within_timeout};

use crate::support::{claim, command, event, open, open_at, recorded, writer_of};

/// Makes a server a replica of the server at this port.
async fn demote(server: &RedisServer, primary: u16) {
    command::<()>(server, "REPLICAOF", ("127.0.0.1", primary)).await;
}

fn engine(store: &RedisStore, poll: Duration) -> (Outbox, Recorder) {
    let (recorder, routes) = recorded();
    let outbox = Outbox::builder(store.clone(), routes).lease(Duration::from_secs(2)).poll_interval(poll);
    (outbox.start().expect("a good configuration"), recorder)
}

/// Writes an event as a process that knows the new primary.
async fn write_at(server: &RedisServer, event_type: &str) -> RedisStore {
    let store = open(server).await;
    writer_of(&store).write(event(event_type, "1")).await.expect("it is stored");
    store
}

async fn is_empty(store: &RedisStore) -> bool {
    store.oldest_pending(None).await.is_ok_and(|age| age.is_none())
}

/// Waits until the writer has reached the new primary.
async fn wait_until_written(writer: &RedisWriter, event_type: &str) {
    wait_until("it is written at the new primary", async || {
        writer.write(event(event_type, "1")).await.is_ok()
    })
    .await;
}

/// `follows`: whether the old primary replicates from the new one.
async fn deliveries_continue_at_the_new_primary(follows: bool) {
    let (old, new) = (RedisServer::new(&[]).started().await, RedisServer::new(&[]).started().await);
    let address = MovingAddress::to(old.port()).await;
    let store = open_at(address.port()).await;
    let (outbox, recorder) = engine(&store, Duration::from_millis(100));
    write_at(&old, "Before").await;
    within_timeout("the first is delivered", recorder.wait_for(1)).await;
    wait_until("the first is settled", async || is_empty(&store).await).await;

    demote(&old, if follows { new.port() } else { 1 }).await;
    address.redirect_to(new.port());
    let there = write_at(&new, "After").await;
    within_timeout("the second is delivered", recorder.wait_for(2)).await;
    wait_until("it is settled at the new primary", async || is_empty(&there).await).await;
    wait_until_written(&RedisWriter::new(&store, &outbox), "Later").await;
    within_timeout("it is delivered", recorder.wait_for(3)).await;
    outbox.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn demoted_primary_is_left_for_the_new_one() {
    deliveries_continue_at_the_new_primary(true).await;
}

/// A server without replication gets nothing new, so nothing is ever due there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn demoted_primary_that_does_not_replicate_is_left_too() {
    deliveries_continue_at_the_new_primary(false).await;
}

/// Wake-ups are received through the new primary as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn wake_up_is_received_from_the_new_primary() {
    let (old, new) = (RedisServer::new(&[]).started().await, RedisServer::new(&[]).started().await);
    let address = MovingAddress::to(old.port()).await;
    let store = open_at(address.port()).await;
    let (outbox, recorder) = engine(&store, Duration::from_secs(3600));
    write_at(&old, "Before").await;
    within_timeout("the wake-up of the old primary is received", recorder.wait_for(1)).await;
    demote(&old, 1).await;
    address.redirect_to(new.port());
    wait_until_written(&RedisWriter::new(&store, &outbox), "Own").await;
    within_timeout("it is delivered", recorder.wait_for(2)).await;
    let stranger = writer_of(&open(&new).await);
    // The listener reconnects after a moment, so the first wake-ups may be missed.
    wait_until("the wake-up of the new primary is received", async || {
        let before = recorder.count();
        stranger.write(event("After", "1")).await.expect("it is stored");
        tokio::time::timeout(Duration::from_secs(1), recorder.wait_for(before + 1)).await.is_ok()
    })
    .await;
    outbox.shutdown().await;
}

/// A server can stay read-only for hours. Not every call may reconnect.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_stays_a_replica_is_not_reconnected_to_on_every_call() {
    let server = RedisServer::new(&[]).started().await;
    let address = MovingAddress::to(server.port()).await;
    let store = open_at(address.port()).await;
    demote(&server, 1).await;
    let (before, since) = (address.accepted(), Instant::now());
    for _ in 0..200 {
        claim(&store).await.expect_err("a replica");
    }
    // Connections are made in pairs.
    let connections = (address.accepted() - before) / 2;
    assert!(connections as u64 <= since.elapsed().as_secs() + 1, "{connections} in {:?}", since.elapsed());
}
