//! A slow broker: it keeps its connections, but replies after a lease would have expired.

use std::time::Duration;

use posthaste::{Config, MemoryStore, MemoryWriter, Outbox, Route, Routes};
use posthaste_testkit::assert_throughout;

use super::{Broker, counts, events, ids};
use crate::delivery::publisher;

const EVENTS: usize = 500;
const LEASE_DURATION: Duration = Duration::from_secs(1);
const SUSPEND_DURATION: Duration = Duration::from_secs(4);

// T-SLOW
/// No event arrives twice, because leases are renewed while their events are in flight.
pub(crate) async fn lease_is_renewed_while_the_broker_is_slow<B: Broker>() {
    let mut broker = B::own().await;
    broker.start().await;
    let store = MemoryStore::new();
    let route = Route::fallback().deliver_to(publisher(&broker.url())).timeout(Duration::from_secs(60));
    let config = {
        let mut config = Config::relay();
        config.lease.duration = LEASE_DURATION;
        config.lease.hot = LEASE_DURATION;
        config
    };
    let outbox = Outbox::from_config(store.clone(), config, Routes::new().add(route)).start().expect("start");
    let writer = MemoryWriter::new(&store, &outbox);
    let events = events(EVENTS);
    let ids = ids(&events);

    // One event first, so that a connection is open when the broker is suspended.
    let write = async |events: Vec<_>| {
        let mut tx = writer.begin().await.expect("begin");
        tx.write_all(events).await.expect("write");
        tx.commit().await.expect("commit");
    };
    write(events[..1].to_vec()).await;
    outbox.idle().await.expect("idle");
    broker.server().suspend();
    write(events[1..].to_vec()).await;
    assert_throughout(SUSPEND_DURATION, "the broker replies to nothing", async || {
        store.rows().iter().filter(|row| row.done_at.is_some()).count() == 1
    })
    .await;
    broker.server().resume();
    outbox.idle().await.expect("idle");

    let received = broker.received(EVENTS).await;
    let counts = counts(&received, &ids);
    assert!(counts.values().all(|count| *count == 1), "{} messages for {EVENTS} events", received.len());
    assert!(store.rows().iter().all(|row| row.done_at.is_some() && row.attempts == 0));
    outbox.shutdown().await;
}
