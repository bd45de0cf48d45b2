//! What an operator reads in the log: the right level, the next step, and no user data.

use std::collections::BTreeSet;

use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{
    BoxError, Delivery, Event, EventId, Outbox, Outcome, Recorder, Route, Routes, Status, Unrecoverable,
    WriterHook, interceptor,
};
use posthaste_testkit::log::Log;
use tokio::time::sleep;
use tracing::Level;

use crate::support::*;

const SENTINEL: &str = "s3ntinel";

/// Every line and span of this crate on the test's thread, at every level.
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
async fn dead_events_unreadable_rows_and_failed_polls_are_errors_with_the_id() {
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

    let dead = |id: &EventId, attempts: u32| {
        format!(
            " message=event is DEAD; its row says why: fix that, then replay it outbox=orders event_id={id} \
             attempts={attempts}"
        )
    };
    let reason = "the headers are not JSON (column 2): set them to an object such as {\"name\":\"text\"}, then replay \
                  the event";
    let unreadable =
        format!(" message=event cannot be decoded outbox=orders event_id={malformed} reason={reason}");
    let lines = log.lines();
    let errors = lines.iter().filter(|line| line.level == Level::ERROR).map(|line| line.fields.clone());
    let errors: BTreeSet<String> = errors.collect();
    assert_eq!(errors, BTreeSet::from([dead(&id, 0), unreadable, dead(&malformed, 0)]));

    store.break_call(Call::Claim, Fault::Fail);
    sleep(secs(6)).await;
    assert!(log.count(Level::ERROR, "the store failed") >= 1);
    store.break_call(Call::Settle, Fault::Fail);
    commit_one(&store.inner, &outbox, "Made").await;
    sleep(secs(1)).await;
    assert!(log.count(Level::WARN, "could not be written back") >= 1);
}

/// Uses the sentinel wherever a hook can.
struct SentinelHook;

impl WriterHook for SentinelHook {
    fn after_commit(&self, _: &[Event]) {
        std::panic::resume_unwind(Box::new(SENTINEL));
    }
}

// S3-57, S3-83, S3-84
#[tokio::test(start_paused = true)]
async fn panic_of_a_hook_or_after_a_dispatch_is_only_an_error_line() {
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
async fn purge_logs_how_many_rows_it_removed_and_a_failed_one_is_an_error() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(HOUR, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    store.break_next(Call::Purge, Fault::Fail);
    // The first purge is within a minute of the start, the second an hour after it.
    sleep(secs(120)).await;
    assert_eq!(log.count(Level::ERROR, "the store failed"), 1);
    assert_eq!(log.count(Level::INFO, "old events purged"), 0);
    sleep(HOUR).await;
    let lines = log.lines();
    let purged =
        lines.iter().find(|line| line.level == Level::INFO && line.fields.contains("old events purged"));
    assert!(purged.is_some_and(|line| line.fields.contains("rows=10")), "{:?}", log.lines());
}

// Invariant 10
#[tokio::test(start_paused = true)]
async fn no_line_at_any_level_shows_a_payload_a_header_or_an_error_of_a_destination() {
    let log = log_of_posthaste();
    let store = FaultyStore::new();
    let outcomes = |delivery: &Delivery| match (delivery.payload().len() % 6, delivery.attempt) {
        (0, _) => Outcome::Dead(SENTINEL.to_owned()),
        (1, 1) => Outcome::retry(SENTINEL),
        (2, 1) => Outcome::retry_after(secs(1), SENTINEL),
        (3, 1) => std::panic::resume_unwind(Box::new(SENTINEL)),
        (4, 1) => Outcome::no_answer(SENTINEL),
        _ => Outcome::done(),
    };
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(Recorder::with(outcomes)))
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
