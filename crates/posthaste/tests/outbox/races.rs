//! Races: replies that are late or lost, calls that are dropped half-way, and bounds that are reached at a bad moment.
//! None of them loses an event, makes it DEAD, or makes it wait for a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use posthaste::admin::Admin;
use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{
    Delivery, Destination, Event, Outbox, Outcome, Profile, Recorder, Route, Routes, ShutdownReport, Status,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

/// Room for thousands of claimed events.
fn large_queue() -> QueueConfig {
    QueueConfig::default().with_cold(4000)
}

// A deferred row is due again before the engine knows that it was deferred.
#[tokio::test(start_paused = true)]
async fn event_that_is_claimed_again_before_the_reply_to_its_settlement_waits_for_no_lease() {
    let store = FaultyStore::new();
    store.break_call(Call::Settle, Fault::AnswerLate(millis(100)));
    let deferrals = AtomicUsize::new(0);
    let recorder = Recorder::with(move |_| match deferrals.fetch_add(1, Ordering::SeqCst) {
        0..25 => Outcome::Defer(millis(10)),
        _ => Outcome::done(),
    });
    let builder = single_node(&store, routes_to(&recorder)).poll_interval(millis(20));
    let outbox = builder.start().expect("start");

    let id = commit_one(&store.inner, &outbox, "Made").await;

    eventually(secs(10), || status(&store.inner, &id) == Status::Done).await;
    assert_eq!(recorder.count(), 26);
}

// The park may or may not have taken effect when the poll is dropped.
#[tokio::test(start_paused = true)]
async fn poll_that_is_dropped_while_it_parks_loses_nothing() {
    for fault in [Fault::AnswerLate(millis(100)), Fault::Delay(millis(100))] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let routes = routes_to(&recorder).add(Route::event("Other").deliver_to(Recorder::new()));
        let outbox = single_node(&store, routes).start().expect("start");
        store.inner.pause("Made", "test").await.expect("pause");
        outbox.poll_once().await.expect("poll");
        store.break_call(Call::Park, fault);
        let ids = insert_foreign(&store.inner, "Made", 1);

        assert!(timeout(millis(10), outbox.poll_once()).await.is_err(), "dropped: {fault:?}");
        assert_eq!(store.count(Call::Park), 1, "while it parked: {fault:?}");
        store.fix(Call::Park);
        store.inner.resume("Made", "test").await.expect("resume");

        eventually(secs(90), || status(&store.inner, &ids[0]) == Status::Done).await;
        assert_each_once(&recorder, &ids);
    }
}

#[tokio::test(start_paused = true)]
async fn nul_in_the_text_of_an_error_does_not_reach_the_store() {
    let store = FaultyStore::new().refusing("\0");
    for answer in [
        || Outcome::retry("bad payload: \0"),
        || Outcome::Dead("bad payload: \0".to_owned()),
        || Outcome::no_answer("bad payload: \0"),
    ] {
        let recorder = Recorder::with(move |_| answer());
        let outbox = single_node(&store, routes_to(&recorder)).retry(plain_retry(1)).start().expect("start");
        let id = commit_one(&store.inner, &outbox, "Made").await;

        eventually(millis(50), || row(&store.inner, &id).last_error.is_some()).await;

        assert_eq!(row(&store.inner, &id).last_error.as_deref(), Some("bad payload: \u{fffd}"));
        outbox.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_that_the_store_refuses_is_written_without_its_text_and_holds_up_no_other_outcome() {
    let store = FaultyStore::new().refusing("unwritable");
    let recorder = Recorder::with(|delivery| match delivery.event_type() {
        "Bad" => Outcome::retry("unwritable"),
        _ => Outcome::done(),
    });
    let routes = routes_to(&recorder).add(Route::event("Bad").deliver_to(recorder.clone()));
    let builder = single_node(&store, routes).retry(plain_retry(1));
    let outbox = builder.start().expect("start");
    let mut batch = events("Made", 20);
    batch.insert(10, event("Bad"));

    let ids = commit(&store.inner, &outbox, batch).await;
    let later = commit_one(&store.inner, &outbox, "Made").await;

    eventually(secs(30), || status(&store.inner, &later) == Status::Done).await;
    outbox.idle().await.expect("idle");
    let bad = row(&store.inner, &ids[10]);
    assert_eq!((bad.status, bad.attempts), (Status::Dead, 1));
    assert_eq!(bad.last_error.as_deref(), Some("the store refused the text of this error"));
    assert_eq!(count_in(&store.inner, Status::Done), 21);
    assert_eq!(recorder.count(), 22, "each once");
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_slow_settlement_as_long_as_its_drain() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    store.break_call(Call::Settle, Fault::Delay(secs(2)));
    let builder = single_node(&store, routes_to(&recorder)).drain(secs(5));
    let outbox = builder.start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    recorder.wait_for(1).await;

    let started = Instant::now();
    let report = outbox.shutdown().await;

    assert!(started.elapsed() < secs(3), "took {:?}", started.elapsed());
    assert_eq!(report, ShutdownReport::default());
    assert_eq!(status(&store.inner, &id), Status::Done);
}

// 1200 outcomes are more than may wait to be written, so a worker waits with the rest.
#[tokio::test(start_paused = true)]
async fn outcomes_that_wait_for_room_at_the_end_of_the_drain_are_written() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new().publisher(600));
    store.break_next(Call::Settle, Fault::Delay(millis(1200)));
    insert_foreign(&store.inner, "Made", 1200);
    let builder = single_node(&store, routes_to(&recorder)).queue(large_queue()).poll_batch(4000);
    let outbox = builder.drain(secs(1)).start().expect("start");
    recorder.wait_for(1200).await;

    let report = outbox.shutdown().await;

    assert_eq!(report, ShutdownReport::default());
    assert_eq!(count_in(&store.inner, Status::Done), 1200);
}

/// Keeps event 0 waiting at its gate, has no connection for the first attempt of event 1, and accepts every other event
/// immediately.
#[derive(Clone, Debug)]
struct OnceDown {
    gate: Gate,
    was_down: Arc<AtomicBool>,
    recorder: Recorder,
}

#[async_trait]
impl Destination for OnceDown {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        match batch[0].payload_as::<u64>() {
            Ok(0) => self.gate.pass().await,
            Ok(1) if !self.was_down.swap(true, Ordering::SeqCst) => {
                return vec![Outcome::no_connection("refused")];
            }
            _ => {}
        }
        self.recorder.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

// The park waits for the reply to a settlement. Meanwhile the route reopens and its parked events, none yet, are
// brought back.
#[tokio::test(start_paused = true)]
async fn event_that_is_parked_while_an_unpark_is_under_way_comes_back() {
    let store = FaultyStore::new();
    let remote = OnceDown { gate: Gate::closed(), was_down: Arc::default(), recorder: Recorder::new() };
    let routes = routes_to(&remote).add(Route::event("Other").deliver_to(Recorder::new()));
    let outbox = single_node(&store, routes).workers(2).start().expect("start");
    outbox.idle().await.expect("idle");
    store.break_call(Call::Settle, Fault::AnswerLate(millis(100)));
    store.break_call(Call::Unpark, Fault::AnswerLate(millis(400)));
    let numbered = (0..4_u64).map(|n| Event::json("Made", &n).expect("a good event")).collect();

    let ids = commit(&store.inner, &outbox, numbered).await;
    sleep(millis(50)).await;
    remote.gate.open();
    eventually(secs(1), || store.count(Call::Park) > 0).await;

    eventually(secs(60), || count_in(&store.inner, Status::Done) == 4).await;
    assert_each_once(&remote.recorder, &ids);
}

// Only a lease that lapsed while another owner held it counts against an event.
#[tokio::test(start_paused = true)]
async fn claims_whose_replies_are_lost_make_no_event_dead() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    store.break_call(Call::Claim, Fault::HangAfter);
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let ids = insert_foreign(&store.inner, "Made", 10);
    sleep(HOUR).await;
    assert_eq!(recorder.count(), 0);

    store.fix(Call::Claim);

    eventually(secs(90), || count_in(&store.inner, Status::Done) == 10).await;
    assert_each_once(&recorder, &ids);
    drop(outbox);
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_a_large_batch_are_written_beside_a_stream_of_small_ones() {
    let (store, large) = (FaultyStore::new(), Recorder::new().publisher(1500));
    store.break_call(Call::Settle, Fault::Delay(millis(20)));
    let small = Slow::new(millis(3), Recorder::new());
    let routes = routes_to(&small).add(Route::event("Many").deliver_to(large.clone()));
    let builder = single_node(&store, routes).workers(8).queue(large_queue()).poll_batch(4000);
    let outbox = builder.start().expect("start");
    let (memory, writer) = (store.inner.clone(), outbox.clone());
    let stream = tokio::spawn(async move {
        loop {
            commit(&memory, &writer, events("Made", 10)).await;
            sleep(millis(4)).await;
        }
    });
    sleep(secs(1)).await;
    let ids = insert_foreign(&store.inner, "Many", 1500);
    large.wait_for(1500).await;

    sleep(secs(2)).await;
    stream.abort();

    let done = store.inner.rows().into_iter().filter(|row| row.status == Status::Done);
    assert_eq!(done.filter(|row| ids.contains(&row.id)).count(), 1500);
    assert_each_once(&large, &ids);
}

#[tokio::test(start_paused = true)]
async fn reading_of_the_lag_that_never_returns_holds_up_no_claim() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    store.break_call(Call::OldestPending, Fault::Hang);
    let builder = single_node(&store, routes_to(&recorder)).poll_interval(millis(100));
    let outbox = builder.start().expect("start");
    for n in 1..=60 {
        insert_foreign(&store.inner, "Made", 1);
        eventually(millis(150), || recorder.count() == n).await;
        sleep(secs(1)).await;
    }
    assert!(store.count(Call::OldestPending) > 1, "it was read again");
    drop(outbox);
}

// An outcome that no database ever accepts must not stop the engine.
#[tokio::test(start_paused = true)]
async fn outcome_that_the_store_never_accepts_holds_up_no_other_outcome() {
    let memory = posthaste::MemoryStore::new();
    let ids = insert_foreign(&memory, "Made", 20);
    let store = FaultyStore::on(&memory).refusing_event(&ids[0]);
    let recorder = Recorder::new();
    let outbox = Outbox::builder(store, routes_to(&recorder)).single_node().start().expect("start");

    eventually(secs(10), || count_in(&memory, Status::Done) == 19).await;
    let later = commit(&memory, &outbox, events("Made", 5)).await;
    eventually(secs(120), || later.iter().all(|id| status(&memory, id) == Status::Done)).await;

    assert_eq!(status(&memory, &ids[0]), Status::New, "nothing can be written about it");
    assert!(ids[1..].iter().all(|id| recorder.count_of(id) == 1));
}

// Workers that found nothing to start must be notified that the last event is done.
#[tokio::test(start_paused = true)]
async fn shutdown_ends_when_everything_is_finished() {
    let store = FaultyStore::new();
    let slow = Slow::new(millis(100), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()).concurrency(1));
    let outbox = single_node(&store, routes).workers(4).drain(secs(30)).start().expect("start");
    commit(&store.inner, &outbox, events("Made", 5)).await;
    sleep(millis(10)).await;

    let started = Instant::now();
    let report = outbox.shutdown().await;

    assert!(started.elapsed() < secs(1), "took {:?}", started.elapsed());
    assert_eq!((slow.inner.count(), report), (5, ShutdownReport::default()));
}

// A store that cannot claim is not called more often because events flow on the hot path.
#[tokio::test(start_paused = true)]
async fn claims_that_fail_are_not_repeated_with_every_hot_event() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    outbox.idle().await.expect("idle");
    store.break_call(Call::Claim, Fault::Fail);

    let before = store.count(Call::Claim);
    for _ in 0..1000 {
        commit(&store.inner, &outbox, events("Made", 1)).await;
        sleep(millis(10)).await;
    }

    assert_eq!(recorder.count(), 1000, "the hot path needs no claim");
    assert!(store.count(Call::Claim) - before <= 10, "{} claims", store.count(Call::Claim) - before);
}

// Bytes are counted together: hot events that leave make room for a cold one.
#[tokio::test(start_paused = true)]
async fn claimed_event_without_free_bytes_waits_only_until_hot_events_are_taken() {
    const KIB: usize = 1024;
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_bytes(300 * KIB);
    let builder = single_node(&store, routes_to(&slow)).workers(1).payload_bytes(200 * KIB);
    let outbox = builder.queue(queue).poll_interval(secs(3)).start().expect("start");
    outbox.idle().await.expect("idle");
    let large = || Event::json("Made", &"x".repeat(100 * KIB)).expect("a good event");
    commit(&store.inner, &outbox, vec![large()]).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    commit(&store.inner, &outbox, vec![large()]).await;
    commit(&store.inner, &outbox, vec![large()]).await;
    store.inner.insert_raw(RawRow::of_type("Made").with_payload(vec![b' '; 150 * KIB]));
    assert_eq!(outbox.poll_once().await.expect("poll"), 0, "what is delivered takes room as well");

    slow.gate.open();

    eventually(secs(10), || slow.inner.count() == 4).await;
}
