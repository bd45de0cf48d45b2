//! What an operator sees: log lines at the right level without anybody's data, and the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder as MetricsRecorder, SharedString, Unit,
};
use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::store::{Claim, Owner, Settle, Settlement, Store as _, Verdict};
use posthaste::{
    BoxError, Delivery, Event, EventId, MemoryStore, Outbox, Outcome, Recorder, Route, Routes, Status,
    Unrecoverable, WriterHook, interceptor,
};
use posthaste_testkit::log::Log;
use tokio::time::sleep;
use tracing::Level;

use crate::support::*;

const SENTINEL: &str = "s3ntinel";

/// Every line and span of ours on the test's thread, at every level.
fn log_of_posthaste() -> Log {
    Log::of_thread_where(|metadata| metadata.target().starts_with("posthaste"))
}

// S2-23, S2-43, S2-49, S3-112, S3-118
#[tokio::test(start_paused = true)]
async fn dropping_from_the_hot_queue_warns_once_a_second() {
    let log = log_of_posthaste();
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let queue = QueueConfig::default().with_hot(4);
    let outbox = single_node(&store, routes).workers(1).queue(queue).start().expect("start");

    commit(&store.inner, &outbox, events("Made", 50)).await;
    assert_eq!(log.count(Level::WARN, "hot queue is full"), 1, "46 drops, one line");
    slow.gate.open();
    outbox.idle().await.expect("idle");
    sleep(secs(2)).await;
    commit(&store.inner, &outbox, events("Made", 50)).await;
    assert_eq!(log.count(Level::WARN, "hot queue is full"), 2);
}

// S2-49, S3-118, S4-13
#[tokio::test(start_paused = true)]
async fn dead_events_undecodable_rows_and_failed_polls_are_errors_with_the_id() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let dead = Recorder::with(|_| Outcome::Dead("no".to_owned()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(dead));
    let outbox = single_node(&store, routes).name("orders").start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    let raw = RawRow::default().with_headers("no json");
    let malformed = raw.id.clone();
    store.inner.insert_raw(raw);
    outbox.idle().await.expect("idle");

    let has = |text: &str, id: &EventId| {
        let lines = log.lines();
        lines.iter().any(|line| {
            line.level == Level::ERROR
                && line.fields.contains(text)
                && line.fields.contains(id.as_str())
                && line.fields.contains("orders")
        })
    };
    assert!(has("event is DEAD", &id), "{:?}", log.lines());
    assert!(has("cannot be decoded", &malformed), "{:?}", log.lines());
    assert!(has("event is DEAD", &malformed));

    store.break_call(Call::Claim, Fault::Fail);
    sleep(secs(6)).await;
    assert!(log.count(Level::ERROR, "the store failed") >= 1);
    store.break_call(Call::Settle, Fault::Fail);
    commit_one(&store.inner, &outbox, "Made").await;
    sleep(secs(1)).await;
    assert!(log.count(Level::WARN, "could not be written back") >= 1);
}

/// Says the sentinel wherever a hook may.
struct SentinelHook;

impl WriterHook for SentinelHook {
    fn after_commit(&self, _: &[Event]) {
        std::panic::resume_unwind(Box::new(SENTINEL));
    }
}

// S3-57, S3-83, S3-84
#[tokio::test(start_paused = true)]
async fn panic_of_a_hook_or_after_a_dispatch_is_an_error_line_and_nothing_more() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let routes = Routes::new().add(Route::event("Made").deliver_to(Recorder::new()));
    let outbox = single_node(&store, routes)
        .hook(SentinelHook)
        .interceptor(interceptor::after(|_, _| std::panic::resume_unwind(Box::new(SENTINEL))))
        .start()
        .expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    outbox.idle().await.expect("idle");
    assert_eq!(status(&store.inner, &id), Status::Done);
    assert_eq!(log.count(Level::ERROR, "a writer hook panicked"), 1);
    assert_eq!(log.count(Level::ERROR, "an interceptor panicked after a dispatch"), 1);
}

// S3-128
#[tokio::test(start_paused = true)]
async fn purge_says_how_many_rows_went_and_a_failed_one_is_an_error() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(HOUR, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    store.break_next(Call::Purge, Fault::Fail);
    // The first purge comes within a minute of the start, the second an hour after it.
    sleep(secs(120)).await;
    assert_eq!(log.count(Level::ERROR, "the store failed"), 1);
    assert_eq!(log.count(Level::INFO, "old events purged"), 0);
    sleep(HOUR).await;
    let told = log.lines();
    let told =
        told.iter().find(|line| line.level == Level::INFO && line.fields.contains("old events purged"));
    assert!(told.is_some_and(|line| line.fields.contains("rows=10")), "{:?}", log.lines());
}

// Invariant 10
#[tokio::test(start_paused = true)]
async fn no_line_at_any_level_shows_a_payload_a_header_or_an_error_of_a_destination() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let answers = |delivery: &Delivery| match (delivery.payload().len() % 6, delivery.attempt) {
        (0, _) => Outcome::Dead(SENTINEL.to_owned()),
        (1, 1) => Outcome::retry(SENTINEL),
        (2, 1) => Outcome::retry_after(secs(1), SENTINEL),
        (3, 1) => std::panic::resume_unwind(Box::new(SENTINEL)),
        (4, 1) => Outcome::no_answer(SENTINEL),
        _ => Outcome::done(),
    };
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(Recorder::with(answers)))
        .add(Route::event("Down").deliver_to(Recorder::with(|_| Outcome::no_connection(SENTINEL))))
        .handle("Refused", async |_: Delivery| Err::<(), BoxError>(Unrecoverable(SENTINEL.to_owned()).into()))
        .on(|_: Typed, _| async {});
    let outbox = single_node(&store, routes)
        .hook(SentinelHook)
        .interceptor(interceptor::before(|event| match event.payload().len() % 7 {
            0 => Err(SENTINEL.into()),
            _ => Ok(()),
        }))
        .interceptor(interceptor::after(|_, _| std::panic::resume_unwind(Box::new(SENTINEL))))
        .retry(plain_retry(2))
        .start()
        .expect("start");

    let mut batch = Vec::new();
    for event_type in ["Made", "Down", "Refused", "Typed", "Unknown"] {
        for n in 0..20 {
            let payload = format!("{SENTINEL}{}", "x".repeat(n));
            let event = Event::builder(event_type).json(&payload).header("authorization", SENTINEL);
            batch.push(event.build().expect("event"));
        }
    }
    commit(&store.inner, &outbox, batch).await;
    for headers in [format!("{{\"a\": \"{SENTINEL}\""), format!("[\"{SENTINEL}\"]"), SENTINEL.to_owned()] {
        store.inner.insert_raw(RawRow::default().with_headers(headers));
    }
    sleep(secs(60)).await;
    store.break_call(Call::Settle, Fault::Fail);
    commit(&store.inner, &outbox, vec![Event::json("Made", SENTINEL).expect("event")]).await;
    sleep(secs(60)).await;
    outbox.shutdown().await;

    let lines = log.lines();
    assert!(lines.len() > 50, "it did log: {}", lines.len());
    let leak = lines.iter().find(|line| line.fields.contains(SENTINEL));
    assert!(leak.is_none(), "{leak:?}");
    let kept = store.inner.rows().iter().any(|row| row.last_error.as_deref() == Some(SENTINEL));
    assert!(kept, "the rows do say why");
}

#[derive(serde::Serialize, serde::Deserialize, posthaste::Event)]
#[event(type = "Typed")]
struct Typed {
    number: u32,
}

/// Counters and gauges by their full key.
#[derive(Clone, Default)]
struct MetricValues(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl MetricValues {
    fn take(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().expect("numbers").entry(name).or_default())
    }

    fn counter(&self, name: &str) -> u64 {
        let numbers = self.0.lock().expect("numbers");
        let number = numbers.get(name).unwrap_or_else(|| panic!("{name} is missing in {:?}", numbers.keys()));
        number.load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl MetricsRecorder for MetricValues {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.take(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.take(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.take(key);
        Histogram::noop()
    }
}

// S2-48, S3-14, S3-16, S3-113, S3-115, S3-116, S3-117
#[tokio::test(start_paused = true)]
async fn metrics_have_the_documents_names_and_count_what_happened() {
    let numbers = MetricValues::default();
    let store = FaultyStore::new();
    let recorder = Recorder::with(|delivery| match (delivery.payload_as::<u32>(), delivery.attempt) {
        (Ok(1), 1) => Outcome::retry("no"),
        (Ok(2), 1) if delivery.source == posthaste::Source::Hot => Outcome::Defer(secs(1)),
        (Ok(3), _) => Outcome::Dead("no".to_owned()),
        _ => Outcome::done(),
    });
    let slow = Gated::new(recorder);
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()).name("made"));
    let queue = QueueConfig::default().with_hot(10);
    let builder = single_node(&store, routes).name("orders").queue(queue);
    let outbox =
        metrics::with_local_recorder(&numbers, || builder.retry(plain_retry(5)).start()).expect("start");
    let made = |n: u32| Event::json("Made", &n).expect("event");
    let delayed = Event::builder("Made").json(&0).deliver_after(secs(5)).build().expect("event");
    commit(&store.inner, &outbox, vec![made(1), made(2), made(3), made(4), delayed]).await;
    sleep(millis(10)).await;
    commit(&store.inner, &outbox, events("Made", 12)).await;
    sleep(millis(10)).await;
    insert_foreign(&store.inner, "Made", 3);
    sleep(secs(11)).await;
    assert_eq!(numbers.gauge("outbox.queue.hot.depth{outbox=orders}"), 10.0);
    assert!(numbers.gauge("outbox.queue.cold.depth{outbox=orders}") > 0.0);
    assert!(numbers.gauge("outbox.lag.oldest.ms{outbox=orders}") >= 5000.0);
    assert_eq!(numbers.counter("outbox.enqueue.hot.dropped{outbox=orders}"), 2);
    assert_eq!(numbers.counter("outbox.enqueue.hot.skipped.delayed{outbox=orders}"), 1);
    assert_eq!(numbers.counter("outbox.enqueue.hot{outbox=orders}"), 14);

    slow.gate.open();
    sleep(secs(20)).await;
    outbox.idle().await.expect("idle");
    let count = |name: &str| numbers.counter(&format!("outbox.{name}{{outbox=orders}}"));
    assert_eq!(count("dispatch.success"), 19);
    assert_eq!(count("dispatch.failure"), 1);
    assert_eq!(count("dispatch.deferred"), 1);
    assert_eq!(count("dispatch.dead"), 1);
    assert_eq!(count("enqueue.cold"), 2 + 3 + 1 + 1 + 1, "dropped, foreign, delayed, retried, deferred");
    assert_eq!(count_in(&store.inner, Status::Done), 19);
    for name in ["held", "settle.batch.size", "lease.conflicts", "store.errors", "settle.late.done"] {
        count(name);
    }
    numbers.counter("outbox.breaker.open{outbox=orders,route=made}");
    numbers.counter("outbox.latency.seconds{outbox=orders,route=made}");
    numbers.counter("outbox.dispatch.duration.seconds{outbox=orders,route=made}");
    sleep(secs(10)).await;
    assert_eq!(numbers.gauge("outbox.queue.hot.depth{outbox=orders}"), 0.0);
    assert_eq!(numbers.gauge("outbox.lag.oldest.ms{outbox=orders}"), 0.0);
}

/// Nothing reads them any more, so what they said last would stay for as long as the process lives.
#[tokio::test(start_paused = true)]
async fn gauges_of_an_engine_that_was_shut_down_are_zero() {
    let (numbers, store) = (MetricValues::default(), FaultyStore::new());
    let slow = Gated::new(Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()).name("made"));
    let builder = single_node(&store, routes).name("orders");
    let outbox = metrics::with_local_recorder(&numbers, || builder.start()).expect("start");
    commit(&store.inner, &outbox, events("Made", 12)).await;
    insert_foreign(&store.inner, "Made", 12);
    sleep(secs(11)).await;
    let gauges = ["queue.hot.depth", "queue.cold.depth", "held", "lag.oldest.ms"];
    let read = |name: &str| numbers.gauge(&format!("outbox.{name}{{outbox=orders}}"));
    assert!(gauges.iter().all(|name| read(name) > 0.0), "there is something to forget");
    outbox.shutdown().await;
    sleep(secs(60)).await;
    assert_eq!(gauges.map(read), [0.0; 4]);
}

// S3-117
#[tokio::test(start_paused = true)]
async fn metrics_can_have_another_prefix_and_show_an_open_breaker() {
    let numbers = MetricValues::default();
    let store = FaultyStore::new();
    let down = Recorder::with(|_| Outcome::no_connection("refused"));
    let routes = Routes::new().add(Route::event("Made").deliver_to(down).name("made"));
    let builder = single_node(&store, routes).metrics_prefix("shop.events");
    let outbox = metrics::with_local_recorder(&numbers, || builder.start()).expect("start");
    commit(&store.inner, &outbox, events("Made", 3)).await;
    sleep(secs(1)).await;
    assert_eq!(numbers.gauge("shop.events.breaker.open{outbox=outbox,route=made}"), 1.0);
    assert!(numbers.counter("shop.events.dispatch.unreachable{outbox=outbox}") >= 1);
    assert!(numbers.counter("shop.events.parked{outbox=outbox}") >= 1);
}

// S3-119
#[tokio::test(start_paused = true)]
async fn mode_without_a_hot_path_never_speaks_of_drops() {
    let (log, numbers) = (log_of_posthaste(), MetricValues::default());
    let store = FaultyStore::new();
    let routes = Routes::new().add(Route::event("Made").deliver_to(Recorder::new()));
    let outbox =
        metrics::with_local_recorder(&numbers, || Outbox::builder(store.clone(), routes).strict().start())
            .expect("start");
    commit(&store.inner, &outbox, events("Made", 3000)).await;
    outbox.idle().await.expect("idle");
    assert_eq!(log.count(Level::WARN, "hot queue"), 0);
    assert_eq!(numbers.counter("outbox.enqueue.hot.dropped{outbox=outbox}"), 0);
    assert_eq!(numbers.counter("outbox.dispatch.success{outbox=outbox}"), 3000);
}

// Design 7: an id that exists already is counted
#[tokio::test(start_paused = true)]
async fn ids_that_exist_already_are_counted() {
    let numbers = MetricValues::default();
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let outbox = metrics::with_local_recorder(&numbers, || single_node(&store, routes).start());
    let outbox = outbox.expect("start");
    let twice = event("Made");
    commit(&store.inner, &outbox, vec![twice.clone(), event("Made"), twice.clone()]).await;
    commit(&store.inner, &outbox, vec![twice]).await;
    assert_eq!(numbers.counter("outbox.write.duplicates{outbox=outbox}"), 2);
    outbox.idle().await.expect("idle");
    assert_eq!(recorder.count(), 2);
}

// Invariant 5: "delivered" on a DEAD row changes nothing and is counted
#[tokio::test(start_paused = true)]
async fn late_success_on_a_dead_row_is_counted() {
    let numbers = MetricValues::default();
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = metrics::with_local_recorder(&numbers, || single_node(&store, routes).start());
    let outbox = outbox.expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    store.break_call(Call::Renew, Fault::Fail);
    sleep(secs(40)).await;
    kill(&store.inner, &id).await;
    slow.gate.open();
    sleep(secs(1)).await;
    assert_eq!(status(&store.inner, &id), Status::Dead);
    assert_eq!(numbers.counter("outbox.settle.late.done{outbox=outbox}"), 1);
}

/// Makes a row DEAD as another engine would that gave up on it.
async fn kill(store: &MemoryStore, id: &EventId) {
    let owner = Owner::from("another engine");
    let claim = Claim::new(&owner, secs(30), 1).at(store.now() + secs(3600));
    let lease = store.claim(&claim).await.expect("claim").events.remove(0).lease;
    assert_eq!(lease.id, *id);
    let dead = Settlement::new(lease, Verdict::Dead { reason: "given up".to_owned() });
    store.settle(&Settle::new(&owner, &[dead])).await.expect("settle");
}
