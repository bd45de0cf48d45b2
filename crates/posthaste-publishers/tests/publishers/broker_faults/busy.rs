//! The destination is there and takes no more for a while: back-pressure is no fault of any event.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Admin as _, Filter};
use posthaste::{Config, Destination, MemoryStore, MemoryWriter, Outbox, RetryPolicy, Route, Routes, Status};
use posthaste_testkit::assert_throughout;
use posthaste_testkit::server::wait_for_server;

use super::events;

const EVENTS: usize = 100;

/// Each event is refused more often in this time than it has attempts.
const BUSY_DURATION: Duration = Duration::from_secs(3);

/// All are delivered as soon as there is room, none is dead, and no attempt was spent. `make_room` takes what has
/// arrived, and returns when all of the events have.
pub(crate) async fn destination_is_full_for_a_while(
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
