//! An outage: the broker is killed while events are being delivered, and restarted after half a minute.

use std::time::Duration;

use posthaste::admin::{Admin as _, Filter};
use posthaste::{Config, MemoryStore, MemoryWriter, Outbox, Route, Routes, Status};
use posthaste_testkit::assert_throughout;
use posthaste_testkit::server::wait_for_server;

use super::{Broker, counts, events, ids};
use crate::delivery::publisher;

const EVENTS: usize = 5_000;
const OUTAGE_DURATION: Duration = Duration::from_secs(30);
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(30);

// F25, T-BROKERDOWN
/// All events are delivered, none is DEAD, no attempt was spent, and the backlog is gone within 30 s of the
/// restart.
pub(crate) async fn outage_of_half_a_minute_loses_nothing<B: Broker>() {
    let mut broker = B::own().await;
    broker.start().await;
    let store = MemoryStore::new();
    let routes = Routes::new().add(Route::fallback().name("broker").deliver_to(publisher(&broker.url())));
    let outbox = Outbox::from_config(store.clone(), Config::relay(), routes).start().expect("start");
    let writer = MemoryWriter::new(&store, &outbox);
    let done = async || store.count(&Filter::status(Status::Done)).await.expect("count");

    let events = events(EVENTS);
    let ids = ids(&events);
    let mut waiting = events.into_iter();
    let mut write = async |count: usize| {
        let mut tx = writer.begin().await.expect("begin");
        tx.write_all(waiting.by_ref().take(count).collect()).await.expect("write");
        tx.commit().await.expect("commit");
    };
    write(1_000).await;
    wait_for_server("some are delivered", async || done().await >= 100).await;
    broker.server().kill();
    write(EVENTS - 1_000).await;
    assert_throughout(OUTAGE_DURATION, "nothing dies during the outage", async || {
        store.count(&Filter::status(Status::Dead)).await.expect("count") == 0
    })
    .await;
    assert!(done().await < EVENTS as u64, "it was down");
    broker.start().await;
    let took = wait_for_server("the backlog is gone", async || done().await == EVENTS as u64).await;

    println!("backlog gone after {took:?}");
    assert!(took <= BACKLOG_TIMEOUT, "the backlog took {took:?}");
    assert!(store.rows().iter().all(|row| row.attempts == 0), "an outage spends no attempts");
    let received = broker.received(EVENTS).await;
    let twice = counts(&received, &ids).values().filter(|count| **count > 1).count();
    println!("{twice} of {EVENTS} arrived more than once");
    outbox.shutdown().await;
}
