//! A server behind a slow link: large events take longer than the reply timeout.

use std::time::Duration;

use posthaste::Outbox;
use posthaste::admin::{Admin as _, Filter, PageRequest};
use posthaste_redis::RedisStore;
use posthaste_testkit::proxy::SlowLink;
use posthaste_testkit::server::RedisServer;

use crate::support::{command, of_size, open, recorded, writer_of};

const MIB: usize = 1024 * 1024;
const BYTES_PER_SECOND: usize = 4_000_000;
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(240);

/// A server with `events` events of 1 MiB, and a store that reaches it over a slow link.
async fn far_store(events: usize) -> (RedisServer, RedisStore) {
    let server = RedisServer::new(&[]).started().await;
    let writer = writer_of(&open(&server).await);
    for _ in 0..events {
        writer.write(of_size("1", MIB)).await.expect("it is stored");
    }
    let far = open_far(&server).await;
    (server, far)
}

/// A store that reaches the server over a slow link.
async fn open_far(server: &RedisServer) -> RedisStore {
    let link = SlowLink::to(&format!("127.0.0.1:{}", server.port()), BYTES_PER_SECOND);
    RedisStore::connect(&format!("redis://{}/", link.address())).await.expect("it opens")
}

/// Asserts that all events are delivered.
async fn are_delivered(events: usize, store_timeout: Duration) {
    let (_server, far) = far_store(events).await;
    let (recorder, routes) = recorded();
    // Events in a reply that was lost are delivered after their lease has ended.
    let outbox = Outbox::builder(far, routes)
        .lease(Duration::from_secs(5))
        .store_timeout(store_timeout)
        .poll_interval(Duration::from_millis(100));
    let outbox = outbox.start().expect("a good configuration");
    let delivered = tokio::time::timeout(DELIVERY_TIMEOUT, async {
        // One by one, because the recorder waits at most a minute.
        for n in 1..=events {
            recorder.wait_for(n).await;
        }
    });
    let delivered = delivered.await;
    delivered.unwrap_or_else(|_| panic!("{} of {events}", recorder.count()));
    outbox.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn backlog_of_large_events_is_delivered_over_a_slow_link() {
    are_delivered(100, Duration::from_secs(10)).await;
}

/// A claim of the default size takes four seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn claims_become_smaller_until_they_arrive_in_time() {
    are_delivered(30, Duration::from_secs(2)).await;
}

/// Bodies of other programs have no length field, so a list reads them completely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn large_event_is_shown_over_a_slow_link() {
    let server = RedisServer::new(&[]).started().await;
    let body = format!(r#"{{"event_type":"Large","payload":"{}"}}"#, "x".repeat(10 * MIB));
    let _: u8 = command(&server, "HSETNX", ("{outbox:0}:entries", "large", body)).await;
    let _: u8 = command(&server, "ZADD", ("{outbox:0}:pending", "NX", 0, "large")).await;
    open(&server).await.repair().await.expect("it is indexed");
    let far = open_far(&server).await;
    let rows = far.list(&Filter::default(), &PageRequest::first(10)).await.expect("it is listed").items;
    assert!(rows.iter().map(|row| row.payload_bytes).eq([10 * MIB as u64]), "{rows:?}");
    let detail = far.get(&rows[0].id).await.expect("it is read").expect("it is there");
    assert_eq!(detail.event.payload().len(), 10 * MIB);
}
