//! Shutdown: SIGTERM arrives while a thousand events are in flight to a broker that does not reply.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::admin::{Admin as _, Filter};
use posthaste::config::QueueConfig;
use posthaste::{Config, Delivery, Destination, Outbox, Outcome, Profile, Route, Routes, Status};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use posthaste_testkit::process::signal;
use sqlx::SqlitePool;

use super::{Broker, counts, events, ids};
use crate::delivery::publisher;

const EVENTS: usize = 1_000;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Environment variables that tell the child process what to do.
const FILE_VAR: &str = "POSTHASTE_TEST_TERM_FILE";
const URL_VAR: &str = "POSTHASTE_TEST_TERM_URL";

// T-TERM, F12
/// The process ends in time with success, and the next process delivers the events that were in flight.
pub(crate) async fn process_stopped_with_a_thousand_in_flight_loses_nothing<B: Broker>() {
    let mut broker = B::own().await;
    broker.start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("outbox.db").display().to_string();
    let store = open(&file).await;
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().start().expect("start");
    let events = events(EVENTS);
    let ids = ids(&events);
    let pool = SqlitePool::connect(&format!("sqlite:{file}")).await.expect("a pool");
    let mut tx = SqliteWriter::new(&store, &outbox).begin(&pool).await.expect("begin");
    tx.write_all(events).await.expect("write");
    tx.commit().await.expect("commit");

    broker.server().suspend();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "broker_faults::shutdown::child", "--ignored", "--nocapture"])
        .env(FILE_VAR, &file)
        .env(URL_VAR, broker.url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let in_flight = lines.any(|line| line.is_ok_and(|line| line.contains("all in flight")));
    assert!(in_flight, "the child ended before all were in flight");
    let signalled = Instant::now();
    signal(child.id(), "TERM");
    let status = tokio::task::spawn_blocking(move || child.wait()).await.expect("a wait").expect("a status");
    assert!(status.success(), "{status}");
    // A delivery may take much longer: up to a minute.
    assert!(
        signalled.elapsed() <= DRAIN_TIMEOUT + Duration::from_secs(20),
        "it took {:?}",
        signalled.elapsed()
    );
    broker.server().resume();

    // The child's leases are short and expire.
    let outbox = engine(store.clone(), publisher(&broker.url()));
    outbox.idle().await.expect("idle");
    while store.count(&Filter::status(Status::Done)).await.expect("count") < EVENTS as u64 {
        outbox.poll_once().await.expect("a poll");
        outbox.idle().await.expect("idle");
    }
    let received = broker.received(EVENTS).await;
    let twice = counts(&received, &ids).values().filter(|count| **count > 1).count();
    println!("{twice} of {EVENTS} arrived more than once");
    outbox.shutdown().await;
}

async fn open(file: &str) -> SqliteStore {
    let options = format!("sqlite:{file}?mode=rwc").parse().expect("options");
    SqliteStore::builder(&options).migrate().connect().await.expect("a store")
}

fn engine(store: SqliteStore, publisher: impl Destination) -> Outbox {
    let route = Route::fallback().deliver_to(publisher).batch(EVENTS / 4).timeout(Duration::from_secs(60));
    let mut config = Config::relay();
    config.workers = Some(4);
    config.drain = DRAIN_TIMEOUT;
    config.queue = QueueConfig::default().with_cold(EVENTS);
    config.lease.duration = Duration::from_secs(3);
    config.lease.hot = Duration::from_secs(3);
    Outbox::from_config(store, config, Routes::new().add(route)).start().expect("start")
}

/// A destination that prints a line once all events are in flight.
struct InFlightAnnouncer<D> {
    inner: D,
    in_flight: AtomicUsize,
}

#[async_trait]
impl<D: Destination> Destination for InFlightAnnouncer<D> {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        if self.in_flight.fetch_add(batch.len(), Ordering::SeqCst) + batch.len() >= EVENTS {
            println!("all in flight");
        }
        self.inner.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}

/// Not a test: the process that the test above starts and stops.
#[tokio::test]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    let (Ok(file), Ok(url)) = (std::env::var(FILE_VAR), std::env::var(URL_VAR)) else { return };
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("signals");
    let publisher = publisher(&url);
    let publisher = InFlightAnnouncer { inner: Arc::clone(&publisher), in_flight: AtomicUsize::new(0) };
    let outbox = engine(open(&file).await, publisher);
    terminate.recv().await;
    outbox.shutdown().await;
}
