//! A server at the other end of a slow link: large events take longer than a server needs to answer.

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

/// A server with so many events of one mebibyte, and the store at the other end of the line.
async fn far_store(events: usize) -> (RedisServer, RedisStore) {
    let server = RedisServer::new(&[]).started().await;
    let writer = writer_of(&open(&server).await);
    for _ in 0..events {
        writer.write(of_size("1", MIB)).await.expect("it is stored");
    }
    let far = open_far(&server).await;
    (server, far)
}

/// The store at the other end of a slow line.
async fn open_far(server: &RedisServer) -> RedisStore {
    let link = SlowLink::to(&format!("127.0.0.1:{}", server.port()), BYTES_PER_SECOND);
    RedisStore::connect(&format!("redis://{}/", link.address())).await.expect("it opens")
}

/// Delivers all of them.
async fn are_delivered(events: usize, store_timeout: Duration) {
    let (_server, far) = far_store(events).await;
    let (recorder, routes) = recorded();
    // What is lost with an answer is delivered when its lease ends.
    let outbox = Outbox::builder(far, routes)
        .lease(Duration::from_secs(5))
        .store_timeout(store_timeout)
        .poll_interval(Duration::from_millis(100));
    let outbox = outbox.start().expect("a good configuration");
    let delivered = tokio::time::timeout(DELIVERY_TIMEOUT, async {
        // One by one, because the recorder waits for a minute at most.
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
async fn backlog_of_large_events_is_delivered_over_a_slow_line() {
    are_delivered(100, Duration::from_secs(10)).await;
}

/// All that one claim may hold needs four seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn claims_become_smaller_until_they_come_in_time() {
    are_delivered(30, Duration::from_secs(2)).await;
}

/// Bodies of other programs say nothing of their length, so that a list reads them whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn large_event_is_shown_over_a_slow_line() {
    let server = RedisServer::new(&[]).started().await;
    let body = format!(r#"{{"event_type":"Large","payload":"{}"}}"#, "x".repeat(10 * MIB));
    let _: u8 = command(&server, "HSETNX", ("{outbox:0}:entries", "large", body)).await;
    let _: u8 = command(&server, "ZADD", ("{outbox:0}:pending", "NX", 0, "large")).await;
    open(&server).await.repair().await.expect("it has its place");
    let far = open_far(&server).await;
    let rows = far.list(&Filter::default(), &PageRequest::first(10)).await.expect("it is listed").items;
    assert!(rows.iter().map(|row| row.payload_bytes).eq([10 * MIB as u64]), "{rows:?}");
    let detail = far.get(&rows[0].id).await.expect("it is read").expect("it is there");
    assert_eq!(detail.event.payload().len(), 10 * MIB);
}
