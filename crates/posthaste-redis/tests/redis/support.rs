//! Outboxes of their own on a shared server.

use posthaste::{Event, EventId, Outbox, Recorder, Route, Routes, Timestamp};
use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder};
use posthaste_testkit::{HOUR, variable};
use redis::aio::MultiplexedConnection;

/// The server that all tests share.
pub(crate) fn server_url() -> String {
    variable("POSTHASTE_TEST_REDIS_URL")
}

/// The nodes of the cluster that all tests share.
pub(crate) fn cluster_urls() -> Vec<String> {
    variable("POSTHASTE_TEST_REDIS_CLUSTER_URL").split(',').map(str::to_owned).collect()
}

/// A connection as a service has one.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a good URL");
    client.get_multiplexed_async_connection().await.expect("the server answers")
}

/// A name that no other test has.
pub(crate) fn fresh_name() -> OutboxName {
    OutboxName::new(&format!("t{}", EventId::uuid_v7().as_str().replace('-', ""))).expect("a good name")
}

pub(crate) fn builder(name: &OutboxName) -> RedisStoreBuilder {
    RedisStore::builder(&server_url()).expect("a good URL").name(name.clone())
}

/// An empty outbox on the shared server.
pub(crate) async fn store() -> (RedisStore, OutboxName) {
    let name = fresh_name();
    (builder(&name).connect().await.expect("the store opens"), name)
}

/// The same with several shards.
pub(crate) async fn store_with_shards(shards: u16) -> (RedisStore, OutboxName) {
    let name = fresh_name();
    (builder(&name).shards(shards).connect().await.expect("the store opens"), name)
}

/// A key of the first shard.
pub(crate) fn key(name: &OutboxName, key: &str) -> String {
    format!("{{{name}:0}}:{key}")
}

/// The store's clock: the server's, in milliseconds.
pub(crate) async fn now(connection: &mut impl redis::aio::ConnectionLike) -> Timestamp {
    let (secs, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await.expect("TIME");
    Timestamp::from_micros(secs * 1_000_000 + micros / 1000 * 1000)
}

/// Removes what a test left behind.
pub(crate) async fn remove(connection: &mut impl redis::aio::ConnectionLike, name: &OutboxName, shards: u16) {
    for shard in 0..shards {
        for key in [
            "entries",
            "state",
            "arrivals",
            "pending",
            "waiting",
            "done",
            "dead",
            "archived",
            "parked",
            "control",
            "audit",
            "expiry-due",
            "expiry-leases",
            "expiry-begun",
            "revoked",
            "expired",
            "expired-at",
            "settings",
        ] {
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(format!("{{{name}:{shard}}}:{key}"));
            let _: i64 = unlink.query_async(connection).await.expect("UNLINK");
        }
    }
}

pub(crate) fn url_of(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// An engine that delivers everything to a recorder, and wakes for nothing but wake-ups of other processes and the hot path.
pub(crate) fn engine(store: &RedisStore) -> (Outbox, Recorder) {
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().poll_interval(HOUR);
    (outbox.start().expect("a good configuration"), recorder)
}

/// An event about a ticket.
pub(crate) fn event(event_type: &str, ticket: &str) -> Event {
    Event::builder(event_type).aggregate("Ticket", ticket).json_text("{}").build().expect("a good event")
}
