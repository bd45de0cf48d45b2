//! Back-pressure: the destination is reachable but accepts no events for a while. That costs no attempts.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Admin as _, Filter};
use posthaste::{Config, Destination, MemoryStore, MemoryWriter, Outbox, RetryPolicy, Route, Routes, Status};
use posthaste_testkit::assert_throughout;
use posthaste_testkit::server::wait_for_server;

use super::events;

const EVENTS: usize = 100;

/// Long enough for each event to be refused more often than it has attempts.
const BUSY_DURATION: Duration = Duration::from_secs(3);

/// All events are delivered once there is room, none is DEAD, and no attempt was spent. `make_room` removes what
/// has arrived, and returns once all events have.
pub(crate) async fn full_destination_spends_no_attempts(
    destination: Arc<dyn Destination>,
    make_room: impl AsyncFnOnce(usize),
) {
    let store = MemoryStore::new();
    let routes = Routes::new().add(Route::fallback().name("full").deliver_to(destination));
    let retry = RetryPolicy::default().with_max_attempts(3).with_base_delay(Duration::from_millis(10));
    let mut config = Config::relay();
    config.retry = Some(retry);
    let outbox = Outbox::from_config(store.clone(), config, routes).start().expect("start");
    let mut tx = MemoryWriter::new(&store, &outbox).begin().await.expect("begin");
    tx.write_all(events(EVENTS)).await.expect("write");
    tx.commit().await.expect("commit");
    let count = async |status| store.count(&Filter::status(status)).await.expect("count");

    assert_throughout(BUSY_DURATION, "nothing dies while it is full", async || {
        count(Status::Dead).await == 0
    })
    .await;
    assert!(count(Status::Done).await < EVENTS as u64, "it was full");
    make_room(EVENTS).await;
    wait_for_server("all are delivered", async || count(Status::Done).await == EVENTS as u64).await;
    assert!(store.rows().iter().all(|row| row.attempts == 0), "back-pressure spends no attempts");
    outbox.shutdown().await;
}
