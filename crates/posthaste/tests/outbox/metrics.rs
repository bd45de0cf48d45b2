//! Metrics: every one by its exact name, and what it counts.

use std::collections::BTreeSet;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_util::debugging::DebuggingRecorder;
use posthaste::config::QueueConfig;
use posthaste::store::{Claim, Owner, Settle, Settlement, Store as _, Verdict};
use posthaste::{Event, EventId, MemoryStore, Outbox, Outcome, Recorder, Route, Routes, StartError, Status};
use posthaste_testkit::log::Log;
use tokio::time::sleep;
use tracing::Level;

use crate::support::*;

/// The metrics of one outbox as Prometheus reads them. Unlike a snapshot of `DebuggingRecorder`, reading resets
/// nothing, so a test can read a gauge twice.
struct Series(PrometheusHandle);

impl Series {
    /// Starts an outbox that reports to a new recorder.
    fn of(start: impl FnOnce() -> Result<Outbox, StartError>) -> (Self, Outbox) {
        let recorder = PrometheusBuilder::new().build_recorder();
        let outbox = metrics::with_local_recorder(&recorder, start).expect("start");
        (Self(recorder.handle()), outbox)
    }

    /// The value of one series, such as `outbox_held{outbox="orders"}`.
    fn value(&self, series: &str) -> f64 {
        let page = self.0.render();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("{series} is missing in {page}"));
        value.parse().expect("a number")
    }
}

// S2-48, S3-14, S3-16, S3-113, S3-115, S3-116, S3-117
#[tokio::test(start_paused = true)]
async fn metrics_have_the_documented_names() {
    const PER_OUTBOX: [&str; 20] = [
        "outbox.enqueue.hot",
        "outbox.enqueue.hot.dropped",
        "outbox.enqueue.hot.skipped.delayed",
        "outbox.enqueue.cold",
        "outbox.write.duplicates",
        "outbox.dispatch.success",
        "outbox.dispatch.failure",
        "outbox.dispatch.dead",
        "outbox.dispatch.deferred",
        "outbox.dispatch.unreachable",
        "outbox.dispatch.busy",
        "outbox.parked",
        "outbox.lease.conflicts",
        "outbox.settle.late.done",
        "outbox.store.errors",
        "outbox.queue.hot.depth",
        "outbox.queue.cold.depth",
        "outbox.held",
        "outbox.lag.oldest.ms",
        "outbox.settle.batch.size",
    ];
    const PER_ROUTE: [&str; 3] =
        ["outbox.dispatch.duration.seconds", "outbox.latency.seconds", "outbox.breaker.open"];
    let recorder = DebuggingRecorder::new();
    let routes = Routes::new().add(Route::event("Made").deliver_to(Recorder::new()).name("made"));
    let builder = single_node(&FaultyStore::new(), routes).name("orders");
    let outbox = metrics::with_local_recorder(&recorder, || builder.start()).expect("start");

    let per_outbox = PER_OUTBOX.map(|name| format!("{name} outbox=orders"));
    let per_route = PER_ROUTE
        .iter()
        .flat_map(|name| ["made", "none"].map(|route| format!("{name} outbox=orders route={route}")));
    let expected: BTreeSet<String> = per_outbox.into_iter().chain(per_route).collect();
    let series = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(key, ..)| {
        let labels = key.key().labels().map(|label| format!(" {}={}", label.key(), label.value()));
        format!("{}{}", key.key().name(), labels.collect::<String>())
    });
    assert_eq!(series.collect::<BTreeSet<_>>(), expected);
    outbox.shutdown().await;
}

// S2-48, S3-14, S3-16, S3-113, S3-115, S3-116, S3-117
#[tokio::test(start_paused = true)]
async fn metrics_count_what_happened() {
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
    let (series, outbox) = Series::of(|| builder.retry(plain_retry(5)).start());
    let made = |n: u32| Event::json("Made", &n).expect("event");
    let delayed = Event::builder("Made").json(&0).deliver_after(secs(5)).build().expect("event");
    commit(&store.inner, &outbox, vec![made(1), made(2), made(3), made(4), delayed]).await;
    sleep(millis(10)).await;
    commit(&store.inner, &outbox, events("Made", 12)).await;
    sleep(millis(10)).await;
    insert_foreign(&store.inner, "Made", 3);
    sleep(secs(11)).await;
    assert_eq!(series.value(r#"outbox_queue_hot_depth{outbox="orders"}"#), 10.0);
    assert!(series.value(r#"outbox_queue_cold_depth{outbox="orders"}"#) > 0.0);
    assert!(series.value(r#"outbox_lag_oldest_ms{outbox="orders"}"#) >= 5000.0);
    assert_eq!(series.value(r#"outbox_enqueue_hot_dropped{outbox="orders"}"#), 2.0);
    assert_eq!(series.value(r#"outbox_enqueue_hot_skipped_delayed{outbox="orders"}"#), 1.0);
    assert_eq!(series.value(r#"outbox_enqueue_hot{outbox="orders"}"#), 14.0);

    slow.gate.open();
    sleep(secs(20)).await;
    outbox.idle().await.expect("idle");
    let count = |name: &str| series.value(&format!("outbox_{name}{{outbox=\"orders\"}}"));
    assert_eq!(count("dispatch_success"), 19.0);
    assert_eq!(count("dispatch_failure"), 1.0);
    assert_eq!(count("dispatch_deferred"), 1.0);
    assert_eq!(count("dispatch_dead"), 1.0);
    assert_eq!(count("enqueue_cold"), 8.0, "2 dropped, 3 foreign, 1 delayed, 1 retried, 1 deferred");
    assert_eq!(count_in(&store.inner, Status::Done), 19);
    assert!(count("settle_batch_size_count") >= 1.0);
    let of_route = |name: &str| series.value(&format!("outbox_{name}{{outbox=\"orders\",route=\"made\"}}"));
    assert_eq!(of_route("breaker_open"), 0.0);
    assert_eq!(of_route("latency_seconds_count"), 22.0, "one per call: 20 events, two of them called twice");
    assert_eq!(of_route("dispatch_duration_seconds_count"), 22.0);
    sleep(secs(10)).await;
    assert_eq!(series.value(r#"outbox_queue_hot_depth{outbox="orders"}"#), 0.0);
    assert_eq!(series.value(r#"outbox_lag_oldest_ms{outbox="orders"}"#), 0.0);
}

/// No engine updates them any more, so otherwise their last values would stay for as long as the process lives.
#[tokio::test(start_paused = true)]
async fn gauges_of_an_engine_that_was_shut_down_are_zero() {
    let store = FaultyStore::new();
    let slow = Gated::new(Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()).name("made"));
    let builder = single_node(&store, routes).name("orders");
    let (series, outbox) = Series::of(|| builder.start());
    commit(&store.inner, &outbox, events("Made", 12)).await;
    insert_foreign(&store.inner, "Made", 12);
    sleep(secs(11)).await;
    let gauges = ["queue_hot_depth", "queue_cold_depth", "held", "lag_oldest_ms"];
    let read = |name: &str| series.value(&format!("outbox_{name}{{outbox=\"orders\"}}"));
    assert!(gauges.iter().all(|name| read(name) > 0.0), "there is something to forget");
    outbox.shutdown().await;
    sleep(secs(60)).await;
    assert_eq!(gauges.map(read), [0.0; 4]);
}

// S3-117
#[tokio::test(start_paused = true)]
async fn metrics_can_have_another_prefix_and_show_an_open_breaker() {
    let store = FaultyStore::new();
    let down = Recorder::with(|_| Outcome::no_connection("refused"));
    let routes = Routes::new().add(Route::event("Made").deliver_to(down).name("made"));
    let builder = single_node(&store, routes).metrics_prefix("shop.events");
    let (series, outbox) = Series::of(|| builder.start());
    commit(&store.inner, &outbox, events("Made", 3)).await;
    sleep(secs(1)).await;
    assert_eq!(series.value(r#"shop_events_breaker_open{outbox="outbox",route="made"}"#), 1.0);
    assert!(series.value(r#"shop_events_dispatch_unreachable{outbox="outbox"}"#) >= 1.0);
    assert!(series.value(r#"shop_events_parked{outbox="outbox"}"#) >= 1.0);
}

// S3-119
#[tokio::test(start_paused = true)]
async fn mode_without_a_hot_path_reports_no_drops() {
    let log = Log::of_thread_where(|metadata| metadata.target().starts_with("posthaste"));
    let store = FaultyStore::new();
    let routes = Routes::new().add(Route::event("Made").deliver_to(Recorder::new()));
    let (series, outbox) = Series::of(|| Outbox::builder(store.clone(), routes).strict().start());
    commit(&store.inner, &outbox, events("Made", 3000)).await;
    outbox.idle().await.expect("idle");
    assert_eq!(log.count(Level::WARN, "hot queue"), 0);
    assert_eq!(series.value(r#"outbox_enqueue_hot_dropped{outbox="outbox"}"#), 0.0);
    assert_eq!(series.value(r#"outbox_dispatch_success{outbox="outbox"}"#), 3000.0);
}

// An id that exists already is counted
#[tokio::test(start_paused = true)]
async fn ids_that_exist_already_are_counted() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let (series, outbox) = Series::of(|| single_node(&store, routes).start());
    let twice = event("Made");
    commit(&store.inner, &outbox, vec![twice.clone(), event("Made"), twice.clone()]).await;
    commit(&store.inner, &outbox, vec![twice]).await;
    assert_eq!(series.value(r#"outbox_write_duplicates{outbox="outbox"}"#), 2.0);
    outbox.idle().await.expect("idle");
    assert_eq!(recorder.count(), 2);
}

// Invariant 5: "delivered" on a DEAD row changes nothing and is counted
#[tokio::test(start_paused = true)]
async fn late_success_on_a_dead_row_is_counted() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let (series, outbox) = Series::of(|| single_node(&store, routes).start());
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    store.break_call(Call::Renew, Fault::Fail);
    sleep(secs(40)).await;
    kill(&store.inner, &id).await;
    slow.gate.open();
    sleep(secs(1)).await;
    assert_eq!(status(&store.inner, &id), Status::Dead);
    assert_eq!(series.value(r#"outbox_settle_late_done{outbox="outbox"}"#), 1.0);
}

/// Makes a row DEAD, as another engine would that gave up on it.
async fn kill(store: &MemoryStore, id: &EventId) {
    let owner = Owner::from("another engine");
    let claim = Claim::new(&owner, secs(30), 1).at(store.now() + secs(3600));
    let lease = store.claim(&claim).await.expect("claim").events.remove(0).lease;
    assert_eq!(lease.id, *id);
    let dead = Settlement::new(lease, Verdict::Dead { reason: "given up".to_owned() });
    store.settle(&Settle::new(&owner, &[dead])).await.expect("settle");
}
