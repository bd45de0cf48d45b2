//! The Kafka polling configuration from end to end: events are written in business transactions, polled, and
//! published.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::admin::{Admin as _, Filter, PageRequest, Replay};
use posthaste::{
    Config, Delivery, Destination, Event, EventId, Outbox, Outcome, Profile, Route, Routes, Status,
};
use posthaste_publishers::Publisher;
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use posthaste_testkit::server::wait_for_server;
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::time::Instant;
use tracing::Level;

use super::broker::{create_topic, read, shared, unique};
use super::{log_of_posthaste, shared_topic, url};
use crate::delivery::publisher;

/// An order service: its own table, an outbox in the same database, and an engine with `Config::kafka_polling`.
struct Shop {
    store: SqliteStore,
    writer: Outbox,
    outbox: Outbox,
    pool: SqlitePool,
    calls: Calls,
    _folder: TempDir,
}

/// The calls of the publisher: start, end and events of each.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Call>>>);

#[derive(Clone, Debug)]
struct Call {
    began: Instant,
    ended: Instant,
    ids: Vec<EventId>,
}

struct TimedPublisher {
    kafka: Arc<dyn Publisher>,
    calls: Calls,
}

#[async_trait]
impl Destination for TimedPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let began = Instant::now();
        let outcomes = self.kafka.deliver(batch).await;
        let ids = batch.iter().map(|delivery| delivery.id().clone()).collect();
        self.calls.0.lock().expect("calls").push(Call { began, ended: Instant::now(), ids });
        outcomes
    }

    fn profile(&self) -> Profile {
        self.kafka.profile()
    }
}

impl Shop {
    async fn open(topic: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = format!("sqlite:{}?mode=rwc", folder.path().join("shop.db").display());
        let options = database.parse().expect("options");
        let store = SqliteStore::builder(&options).migrate().connect().await.expect("a store");
        let pool = SqlitePool::connect(&database).await.expect("a pool");
        sqlx::query("CREATE TABLE orders (id TEXT)").execute(&pool).await.expect("a table");
        let calls = Calls::default();
        let watched = TimedPublisher { kafka: publisher(&url(&shared(), topic)), calls: calls.clone() };
        let routes = Routes::new().add(Route::fallback().deliver_to(watched));
        let outbox = Outbox::from_config(store.clone(), Config::kafka_polling(), routes);
        let outbox = outbox.start().expect("start");
        // With polling, the engine learns of events only through the table.
        let writer = Outbox::builder(store.clone(), Routes::new()).writer_only().start().expect("start");
        Self { store, writer, outbox, pool, calls, _folder: folder }
    }

    /// Places orders in one transaction: a row and an event each.
    async fn place_orders(&self, count: usize, commit: bool) -> Vec<EventId> {
        let mut tx = SqliteWriter::new(&self.store, &self.writer).begin(&self.pool).await.expect("begin");
        let mut ids = Vec::new();
        for n in 0..count {
            let id = EventId::uuid_v7();
            sqlx::query("INSERT INTO orders VALUES (?)")
                .bind(n as i64)
                .execute(&mut *tx)
                .await
                .expect("an order");
            let payload = serde_json::json!({"eventId": id.as_str(), "orderId": n, "total": "42.10"});
            let event = Event::builder("OrderCreated").id(id.clone()).aggregate("Order", n).json(&payload);
            tx.write(event.build().expect("a good event")).await.expect("write");
            ids.push(id);
        }
        if commit {
            tx.commit().await.expect("commit");
        } else {
            tx.rollback().await.expect("rollback");
        }
        ids
    }

    async fn count(&self, status: Status) -> u64 {
        self.store.count(&Filter::status(status)).await.expect("count")
    }
}

// S4-01, S4-02, S4-04, S4-08, S4-11, S4-15, S4-17
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn committed_events_reach_kafka_and_rolled_back_ones_do_not() {
    let topic = shared_topic("orders").await;
    let shop = Shop::open(&topic).await;
    let placed = shop.place_orders(3, true).await;
    shop.place_orders(2, false).await;
    wait_for_server("all are done", async || shop.count(Status::Done).await == 3).await;

    let messages = read(&shared(), &topic).await;
    let mut ids: Vec<EventId> = messages.iter().map(super::broker::Message::id).collect();
    ids.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    assert_eq!(ids, placed, "each event once, and no other");
    for message in messages {
        let payload: serde_json::Value =
            serde_json::from_slice(message.payload.as_deref().expect("a payload")).expect("JSON");
        assert_eq!(payload["eventId"], message.id().as_str());
        assert_eq!(message.key, Some(payload["orderId"].to_string()));
        assert_eq!(payload["total"], "42.10", "the payload is complete");
    }
    for row in shop.store.list(&Filter::default(), &PageRequest::first(10)).await.expect("rows").items {
        assert!(row.done_at.is_some() && row.attempts == 0, "{row:?}");
    }
    shop.outbox.shutdown().await;
}

// S4-06, S4-07, S4-10
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn poll_claims_at_most_ten_events_oldest_first() {
    let topic = shared_topic("orders").await;
    let shop = Shop::open(&topic).await;
    let placed = shop.place_orders(25, true).await;
    let mut polls = Vec::new();
    while shop.count(Status::Done).await < 25 {
        polls.push(shop.outbox.poll_once().await.expect("a poll"));
        shop.outbox.idle().await.expect("idle");
    }
    assert!(polls.iter().all(|claimed| *claimed <= 10), "{polls:?}");
    let calls = shop.calls.0.lock().expect("calls").clone();
    for (earlier, later) in calls.iter().zip(&calls[1..]) {
        assert!(earlier.ended <= later.began, "one call at a time: {calls:?}");
    }
    let taken: Vec<EventId> = calls.into_iter().flat_map(|call| call.ids).collect();
    assert_eq!(taken, placed, "oldest first");
    shop.outbox.shutdown().await;
}

// S4-11, S4-12, S4-13, S4-14, S4-16
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn event_is_dead_after_five_attempts_and_delivered_after_a_replay() {
    let log = log_of_posthaste();
    let topic = unique("missing");
    let shop = Shop::open(&topic).await;
    let id = shop.place_orders(1, true).await.remove(0);
    wait_for_server("it is dead", async || shop.count(Status::Dead).await == 1).await;

    let calls = shop.calls.0.lock().expect("calls").clone();
    assert_eq!(calls.len(), 5, "five attempts and no more");
    for (pair, wait) in calls.windows(2).zip([100, 200, 400, 800]) {
        let (waited, wait) = (pair[1].began - pair[0].ended, Duration::from_millis(wait));
        println!("{waited:?} for {wait:?}");
        let slack = Duration::from_millis(20)..Duration::from_secs(10);
        assert!(waited + slack.start >= wait && waited < wait + slack.end, "{waited:?} for {wait:?}");
    }
    let row = shop.store.list(&Filter::dead(), &PageRequest::first(1)).await.expect("rows").items.remove(0);
    let reason = row.last_error.expect("a reason");
    assert!(reason.contains(&format!("topic {topic} does not exist")), "{reason}");
    assert_eq!(row.attempts, 5);
    wait_for_server("an error is in the log", async || log.count(Level::ERROR, id.as_str()) > 0).await;

    create_topic(&shared(), &topic, &[]).await;
    let replay = Replay::by("operator");
    assert!(shop.store.replay(&id, &replay).await.expect("replay"));
    wait_for_server("it is done", async || shop.count(Status::Done).await == 1).await;
    assert_eq!(read(&shared(), &topic).await.len(), 1);
    assert_eq!(shop.outbox.purge_once().await.expect("purge"), 0, "it is kept for 30 days");
    assert_eq!(shop.count(Status::Done).await, 1);
    shop.outbox.shutdown().await;
}
