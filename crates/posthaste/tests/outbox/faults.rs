//! A store that fails, hangs, loses answers or panics; shutdown, bounds and purging.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste::config::{PurgeConfig, QueueConfig, Retention};
use posthaste::memory::RawRow;
use posthaste::store::OnDone;
use posthaste::{
    Config, Delivery, Destination, Event, LAST_ERROR_MAX_LENGTH, Outbox, Outcome, Recorder, Route, Routes,
    ShutdownReport, Status, handler,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn routes_to(destination: &(impl Destination + Clone)) -> Routes {
    Routes::new().add(Route::event("Made").deliver_to(destination.clone()))
}

// Design 8, poller; S3-118
#[tokio::test(start_paused = true)]
async fn poller_recovers_from_every_fault_of_a_claim() {
    for fault in [Fault::Fail, Fault::Hang, Fault::Delay(secs(4)), Fault::Delay(secs(12)), Fault::Panic] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
        store.break_call(Call::Claim, fault);
        let ids = insert_foreign(&store.inner, "Made", 120);
        sleep(secs(60)).await;
        store.fix(Call::Claim);
        eventually(secs(30), || recorder.count() >= 120).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
        drop(outbox);
    }
}

// Invariant 1
#[tokio::test(start_paused = true)]
async fn claim_whose_answer_is_lost_costs_a_lease_and_no_event() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let ids = insert_foreign(&store.inner, "Made", 40);
        store.break_next(Call::Claim, fault);
        let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
        eventually(secs(60), || recorder.count() >= 40).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
        drop(outbox);
    }
}

// Design 8, settler
#[tokio::test(start_paused = true)]
async fn lost_answer_to_a_settlement_makes_no_duplicate() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter, Fault::Fail, Fault::Hang, Fault::Delay(secs(5))] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let outbox =
            single_node(&store, routes_to(&recorder)).poll_interval(millis(50)).start().expect("start");
        store.break_next(Call::Settle, fault);
        store.break_next(Call::Settle, fault);
        let ids = commit(&store.inner, &outbox, events("Made", 50)).await;
        eventually(secs(60), || count_in(&store.inner, Status::Done) == 50).await;
        sleep(HOUR).await;
        assert_each_once(&recorder, &ids);
    }
}

// Design 8, settler: the consumed token makes repeats harmless
#[tokio::test(start_paused = true)]
async fn lost_answer_to_a_failure_counts_one_attempt() {
    for fault in [Fault::LoseAnswer, Fault::HangAfter] {
        let store = FaultyStore::new();
        let recorder = Recorder::with(|delivery| match delivery.attempt {
            1 => Outcome::retry("first"),
            _ => Outcome::done(),
        });
        let builder = single_node(&store, routes_to(&recorder)).retry(plain_retry(3));
        let outbox = builder.poll_interval(millis(50)).start().expect("start");
        store.break_next(Call::Settle, fault);
        let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
        let took = eventually(secs(60), || count_in(&store.inner, Status::Done) == 20).await;
        assert!(took < secs(25), "{fault:?}: no lease had to lapse, but it took {took:?}");
        assert!(store.inner.rows().iter().all(|row| row.attempts == 1), "{fault:?}");
        assert!(ids.iter().all(|id| recorder.count_of(id) == 2), "{fault:?}");
        drop(outbox);
    }
}

// Design 8, settler: a store outage must not turn the queue into duplicates
#[tokio::test(start_paused = true)]
async fn nothing_new_starts_while_outcomes_cannot_be_written() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(millis(1), recorder.clone());
    let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
    store.break_call(Call::Settle, Fault::Fail);
    let mut ids = commit(&store.inner, &outbox, events("Made", 100)).await;
    sleep(millis(20)).await;
    let started = recorder.count();
    assert!(started <= 8, "{started} started before the first failure was known");
    ids.extend(commit(&store.inner, &outbox, events("Made", 100)).await);
    sleep(secs(300)).await;
    assert_eq!(recorder.count(), started);
    assert_eq!(count_in(&store.inner, Status::Done), 0);

    store.fix(Call::Settle);
    eventually(secs(10), || count_in(&store.inner, Status::Done) == 200).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}

// Design 8, settler: "delivered" until shutdown
#[tokio::test(start_paused = true)]
async fn delivered_is_told_until_the_store_is_back() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    store.break_all(Fault::Fail);
    recorder.wait_for(1).await;
    sleep(HOUR * 3).await;
    assert_eq!(status(&store.inner, &id), Status::New);
    store.fix_all();
    eventually(secs(10), || status(&store.inner, &id) == Status::Done).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &[id]);
    drop(outbox);
}

// Design 8, settler: everything else until its lease has lapsed
#[tokio::test(start_paused = true)]
async fn failure_that_could_not_be_written_in_time_is_given_up_and_the_event_tried_again() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|_| Outcome::retry("no"));
    let builder = single_node(&store, routes_to(&recorder)).retry(plain_retry(3));
    let outbox = builder.start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    store.break_all(Fault::Fail);
    sleep(secs(120)).await;
    assert_eq!(recorder.count(), 1);
    assert_eq!(outbox.held(), 0, "given up");
    store.fix_all();
    eventually(secs(60), || status(&store.inner, &id) == Status::Dead).await;
    assert_eq!((row(&store.inner, &id).attempts, recorder.count()), (3, 4));
}

// Invariant 1; S0-01
#[tokio::test(start_paused = true)]
async fn store_whose_other_calls_fail_or_panic_still_delivers_everything_once() {
    for call in [Call::Renew, Call::Release, Call::Park, Call::Unpark, Call::OldestPending, Call::Purge] {
        for fault in [Fault::Fail, Fault::LoseAnswer, Fault::Panic, Fault::Delay(secs(2))] {
            let (store, recorder) = (FaultyStore::new(), Recorder::new());
            let slow = Slow::new(millis(700), recorder.clone());
            let routes = Routes::new().add(Route::event("Made").deliver_to(slow));
            let queue = QueueConfig::default().with_hot(5).with_cold(20);
            let outbox =
                single_node(&store, routes).queue(queue).poll_interval(secs(1)).start().expect("start");
            store.break_call(call, fault);
            let mut ids = insert_foreign(&store.inner, "Made", 60);
            ids.extend(commit(&store.inner, &outbox, events("Made", 20)).await);
            sleep(secs(300)).await;
            assert_eq!(count_in(&store.inner, Status::Done), 80, "{call:?} {fault:?}");
            assert_each_once(&recorder, &ids);
            drop(outbox);
        }
    }
}

// Invariant 1: a panic in the store's own code
#[tokio::test(start_paused = true)]
async fn settlement_that_panics_loses_no_event_and_repeats_none() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    store.break_next(Call::Settle, Fault::Panic);
    store.break_next(Call::Settle, Fault::Panic);
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    eventually(secs(120), || count_in(&store.inner, Status::Done) == 20).await;
    timeout(secs(10), outbox.idle()).await.expect("not stuck").expect("idle");
    assert_each_once(&recorder, &ids);
    assert_eq!(outbox.held(), 0);
}

// Invariant 1: a panic while events are parked
#[tokio::test(start_paused = true)]
async fn park_that_panics_or_fails_leaves_no_event_behind() {
    for fault in [Fault::Panic, Fault::Fail, Fault::LoseAnswer] {
        let store = FaultyStore::new();
        let up = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let taken = Recorder::new();
        let remote = Recorder::with({
            let up = Arc::clone(&up);
            move |_| match up.load(std::sync::atomic::Ordering::SeqCst) {
                true => Outcome::done(),
                false => Outcome::no_connection("refused"),
            }
        });
        let routes = routes_to(&remote).add(Route::event("Fine").deliver_to(taken.clone()));
        let outbox = single_node(&store, routes).start().expect("start");
        store.break_next(Call::Park, fault);
        store.break_next(Call::Park, fault);
        insert_foreign(&store.inner, "Made", 120);
        let fine = insert_foreign(&store.inner, "Fine", 120);
        sleep(secs(20)).await;
        up.store(true, std::sync::atomic::Ordering::SeqCst);
        eventually(secs(120), || count_in(&store.inner, Status::Done) == 240).await;
        timeout(secs(10), outbox.idle()).await.expect("not stuck").expect("idle");
        assert_each_once(&taken, &fine);
    }
}

// S3-74, S3-85, S3-143
#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_is_queued_within_the_drain() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(millis(100), recorder.clone());
    let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 100)).await;
    let started = Instant::now();
    let report = outbox.shutdown().await;
    assert_eq!((report.released, report.abandoned), (0, 0));
    assert!(started.elapsed() < secs(3), "not longer than the work: {:?}", started.elapsed());
    assert_each_once(&recorder, &ids);
    assert_eq!(count_in(&store.inner, Status::Done), 100);
}

#[tokio::test(start_paused = true)]
async fn retired_outbox_finishes_what_it_began_and_leaves_the_rest_to_the_next() {
    let (store, begun, next) = (FaultyStore::new(), Gated::new(Recorder::new()), Recorder::new());
    let config = || {
        let mut config = Config::relay();
        config.workers = Some(4);
        config
    };
    let old = Outbox::from_config(store.clone(), config(), routes_to(&begun)).start().expect("start");
    let ids = commit(&store.inner, &old, events("Made", 100)).await;
    while begun.gate.entered() < 4 {
        tokio::task::yield_now().await;
    }

    let new = Outbox::from_config(store.clone(), config(), routes_to(&next)).start().expect("start");
    let retiring = tokio::spawn({
        let old = old.clone();
        async move { old.retire().await }
    });
    next.wait_for(96).await;
    assert!(!retiring.is_finished(), "four deliveries have begun");
    begun.gate.open();
    let report = retiring.await.expect("retired");
    assert_eq!((report.released, report.abandoned, begun.inner.count()), (96, 0, 4));

    new.idle().await.expect("idle");
    let all = begun.inner.ids().into_iter().chain(next.ids()).collect::<BTreeSet<_>>();
    assert_eq!((all.len(), begun.inner.count() + next.count()), (ids.len(), ids.len()), "each once");
    assert_eq!(old.retire().await, ShutdownReport::default(), "twice is harmless");
    new.shutdown().await;
}

/// As after a reload that mends a destination, while calls of the old engine still wait for the broken one.
#[tokio::test(start_paused = true)]
async fn what_a_retired_outbox_could_not_deliver_waits_for_nobody() {
    let (store, next) = (FaultyStore::new(), Recorder::new());
    let hangs = handler(async |_: Delivery| {
        sleep(secs(5)).await;
        Outcome::no_answer("it hangs")
    });
    let config = || {
        let mut config = Config::relay();
        config.workers = Some(4);
        config
    };
    let broken = Routes::new().add(Route::fallback().deliver_to(hangs));
    let old = Outbox::from_config(store.clone(), config(), broken).start().expect("start");
    let ids = commit(&store.inner, &old, events("Made", 8)).await;
    sleep(secs(1)).await;

    let new = Outbox::from_config(store.clone(), config(), routes_to(&next)).start().expect("start");
    old.retire().await;
    timeout(secs(10), next.wait_for(8)).await.expect("none is parked for minutes");
    assert_each_once(&next, &ids);
    new.shutdown().await;
}

// S3-143
#[tokio::test(start_paused = true)]
async fn shutdown_with_a_broken_store_ends_soon_after_the_drain() {
    for fault in [Fault::Fail, Fault::Hang, Fault::Panic] {
        let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
        let outbox = single_node(&store, routes_to(&slow)).start().expect("start");
        insert_foreign(&store.inner, "Made", 100);
        commit(&store.inner, &outbox, events("Made", 20)).await;
        sleep(secs(6)).await;
        store.break_all(fault);
        slow.gate.admit(6);
        sleep(secs(6)).await;
        let started = Instant::now();
        outbox.shutdown().await;
        assert!(started.elapsed() <= secs(7), "{fault:?}: {:?}", started.elapsed());
    }
}

// S3-143, S3-134
#[tokio::test(start_paused = true)]
async fn shutdown_of_strict_mode_ends_soon_after_the_drain() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let outbox = Outbox::builder(store.clone(), routes_to(&slow)).strict().start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    sleep(secs(6)).await;
    let started = Instant::now();
    let report = outbox.shutdown().await;
    assert!(started.elapsed() <= secs(7), "{:?}", started.elapsed());
    assert_eq!((report.released, report.abandoned), (19, 1));

    slow.gate.open();
    let next = Outbox::builder(store.clone(), routes_to(&slow)).strict().start().expect("start");
    sleep(secs(60)).await;
    let mut delivered = slow.inner.ids();
    delivered.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    assert_eq!(delivered, ids, "each once, though the running one comes after its lease");
    drop(next);
}

// S3-143
#[tokio::test(start_paused = true)]
async fn dropped_shutdown_goes_on() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let outbox = single_node(&store, routes_to(&slow)).workers(1).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 10)).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    assert!(timeout(millis(100), outbox.shutdown()).await.is_err(), "given up by its caller");
    slow.gate.admit(3);
    sleep(secs(10)).await;
    assert_eq!(count_in(&store.inner, Status::Done), 3, "the drain went on");
    let held = store.inner.rows().iter().filter(|row| row.locked_by.is_some()).count();
    assert_eq!(held, 1, "the others went back; one was running");

    slow.gate.open();
    let next = single_node(&store, routes_to(&slow)).start().expect("start");
    eventually(secs(60), || count_in(&store.inner, Status::Done) == 10).await;
    assert_each_once(&slow.inner, &ids);
    drop((outbox, next));
}

// S2-41, S2-42, S2-56, S3-86, S3-111, S3-114, Invariant 4
#[tokio::test(start_paused = true)]
async fn engine_never_holds_more_than_its_bounds() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new().publisher(10)));
    let queue = QueueConfig::default().with_hot(300).with_cold(200);
    let builder = single_node(&store, routes_to(&slow)).workers(4).queue(queue).poll_batch(500);
    let outbox = builder.publish_timeout(DAY).start().expect("start");
    let mut ids = Vec::new();
    let mut most = 0;
    for _ in 0..100 {
        ids.extend(commit(&store.inner, &outbox, events("Made", 100)).await);
        ids.extend(insert_foreign(&store.inner, "Made", 100));
        sleep(millis(50)).await;
        most = most.max(outbox.held());
    }
    assert!(most <= 300 + 200 + 4 * 10, "{most}");
    assert!(most >= 300, "and it uses them: {most}");

    slow.gate.open();
    for _ in 0..2000 {
        sleep(millis(1)).await;
        most = most.max(outbox.held());
    }
    outbox.idle().await.expect("idle");
    assert!(most <= 300 + 200 + 4 * 10 + 1000, "{most}");
    assert_each_once(&slow.inner, &ids);
}

// S2-44, S3-73, S3-91, S3-98, S3-114
#[tokio::test(start_paused = true)]
async fn poller_claims_only_what_fits_and_nothing_while_the_cold_queue_is_full() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_cold(5);
    let builder = single_node(&store, routes_to(&slow)).workers(1).queue(queue);
    let outbox = builder.poll_interval(secs(1)).start().expect("start");
    let ids = insert_foreign(&store.inner, "Made", 30);
    sleep(secs(3)).await;
    assert_eq!(outbox.held(), 6, "one runs, five wait");
    let claims = store.count(Call::Claim);
    sleep(secs(30)).await;
    assert_eq!(outbox.poll_once().await.expect("poll"), 0);
    assert_eq!(store.count(Call::Claim), claims, "no room, no claim");
    let untouched = ids.iter().filter(|id| store.inner.writes(id) == 0).count();
    assert_eq!(untouched, 24, "nothing was claimed in vain");

    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &ids);
}

// Invariant 4: errors; S0-20, S3-68
#[tokio::test(start_paused = true)]
async fn error_of_any_length_is_kept_with_4000_characters() {
    let store = FaultyStore::new();
    let long = "ü".repeat(LAST_ERROR_MAX_LENGTH + 1);
    let recorder = Recorder::with(move |delivery| match delivery.payload_as::<u32>() {
        Ok(0) => Outcome::Dead(long.clone()),
        Ok(1) => Outcome::retry(long.clone()),
        Ok(2) => Outcome::retry_after(HOUR, long.clone()),
        _ => Outcome::no_answer(long.clone()),
    });
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let batch = (0..4u32).map(|n| Event::json("Made", &n).expect("event")).collect();
    let ids = commit(&store.inner, &outbox, batch).await;
    recorder.wait_for(4).await;
    sleep(millis(10)).await;
    for id in ids {
        let error = row(&store.inner, &id).last_error.expect("an error");
        assert_eq!(error.chars().count(), LAST_ERROR_MAX_LENGTH);
        assert!(error.ends_with("ü..."));
    }
}

// Invariant 4: bytes
#[tokio::test(start_paused = true)]
async fn queues_hold_no_more_bytes_than_allowed() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_bytes(8 << 20);
    let builder = single_node(&store, routes_to(&slow)).workers(2).queue(queue);
    let outbox = builder.start().expect("start");
    let big = bytes::Bytes::from(vec![b'x'; (1 << 20) - 10]);
    let mut ids = Vec::new();
    for _ in 0..60 {
        let event = Event::bytes("Made", "text/plain", big.clone()).expect("event");
        ids.extend(commit(&store.inner, &outbox, vec![event]).await);
        let raw = RawRow::of_type("Made").with_payload(big.clone());
        ids.push(raw.id.clone());
        store.inner.insert_raw(raw);
        sleep(millis(200)).await;
        assert!(outbox.held() <= 8 + 2, "{} MiB", outbox.held());
    }
    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &ids);
}

// Invariant 1 meets Invariant 4: a row of a foreign program may be of any size
#[tokio::test(start_paused = true)]
async fn event_larger_than_the_byte_bound_is_delivered_alone() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let queue = QueueConfig::default().with_bytes(1 << 20);
    let outbox = single_node(&store, routes_to(&recorder)).queue(queue).start().expect("start");
    let huge = RawRow::of_type("Made").with_payload(vec![b'1'; 2 << 20]);
    let mut ids = insert_foreign(&store.inner, "Made", 10);
    ids.push(huge.id.clone());
    store.inner.insert_raw(huge);
    let exact = Event::bytes("Made", "text/plain", vec![b'1'; 1 << 20]).expect("as large as may be");
    ids.extend(commit(&store.inner, &outbox, vec![exact]).await);
    ids.extend(insert_foreign(&store.inner, "Made", 10));

    eventually(secs(60), || recorder.count() >= 22).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}

// S0-10, S2-41, S3-90
#[tokio::test(start_paused = true)]
async fn poll_once_claims_one_batch_and_idle_waits_for_all() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).poll_interval(DAY).start().expect("start");
    eventually(secs(1), || store.count(Call::Claim) == 1).await;
    let ids = insert_foreign(&store.inner, "Made", 120);
    assert_eq!(outbox.poll_once().await.expect("poll"), 50);
    sleep(secs(1)).await;
    assert_eq!(recorder.count(), 50);
    outbox.idle().await.expect("idle");
    assert_eq!(count_in(&store.inner, Status::Done), 120);
    assert_each_once(&recorder, &ids);
    assert_eq!(outbox.poll_once().await.expect("poll"), 0);
    outbox.shutdown().await;
    insert_foreign(&store.inner, "Made", 1);
    assert_eq!(outbox.poll_once().await.expect("poll"), 0, "stopped");
}

// S3-92, D9
#[tokio::test(start_paused = true)]
async fn skip_recent_leaves_new_rows_alone_for_a_while() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let builder = single_node(&store, routes_to(&recorder)).skip_recent(secs(10));
    let outbox = builder.poll_interval(secs(1)).start().expect("start");
    insert_foreign(&store.inner, "Made", 5);
    sleep(secs(9)).await;
    assert_eq!(recorder.count(), 0);
    eventually(secs(3), || recorder.count() == 5).await;
    drop(outbox);
}

// S3-122, S3-123, S3-126, T6, D17, D18
#[tokio::test(start_paused = true)]
async fn done_rows_go_seven_days_after_their_end_and_dead_rows_stay() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = routes_to(&recorder)
        .add(Route::event("Bad").deliver_to(Recorder::with(|_| Outcome::Dead("rejected".to_owned()))));
    let outbox = single_node(&store, routes).poll_interval(HOUR).start().expect("start");
    let long_ago = store.inner.now() - DAY * 30;
    for event_type in ["Made", "Bad"] {
        for _ in 0..600 {
            let raw = RawRow::of_type(event_type).with_created_at(long_ago).with_inserted_at(long_ago);
            store.inner.insert_raw(raw);
        }
    }
    outbox.idle().await.expect("idle");
    sleep(DAY * 6).await;
    assert_eq!(store.inner.len(), 1200, "old when they were delivered, but delivered just now");
    sleep(DAY + HOUR * 2).await;
    assert_eq!((count_in(&store.inner, Status::Done), count_in(&store.inner, Status::Dead)), (0, 600));
    sleep(DAY * 60).await;
    assert_eq!(count_in(&store.inner, Status::Dead), 600, "a dead event does not vanish by itself");
}

// S3-122, S3-126, S3-127, D17
#[tokio::test(start_paused = true)]
async fn retention_can_be_set_per_status_and_purge_once_answers_how_many() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let routes = routes_to(&recorder)
        .add(Route::event("Bad").deliver_to(Recorder::with(|_| Outcome::Dead("no".to_owned()))));
    let purge = PurgeConfig::default()
        .with_done(Retention::archive_after(secs(60)))
        .with_dead(Retention::delete_after(secs(120)))
        .with_batch(7)
        .with_interval(DAY);
    let outbox = single_node(&store, routes).purge(purge).start().expect("start");
    let mut batch = events("Made", 30);
    batch.extend(events("Bad", 20));
    commit(&store.inner, &outbox, batch).await;
    outbox.idle().await.expect("idle");
    assert_eq!(outbox.purge_once().await.expect("purge"), 0);
    sleep(secs(61)).await;
    let before = store.count(Call::Purge);
    assert_eq!(outbox.purge_once().await.expect("purge"), 30);
    assert_eq!(store.count(Call::Purge) - before, 5 + 1, "batches of seven until one is short");
    sleep(secs(60)).await;
    assert_eq!(outbox.purge_once().await.expect("purge"), 20);
    assert!(store.inner.is_empty());
}

// Design 6: on_done
#[tokio::test(start_paused = true)]
async fn delivered_rows_can_be_deleted_at_once() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let purge = PurgeConfig::default().with_on_done(OnDone::Delete);
    let outbox = single_node(&store, routes_to(&recorder)).purge(purge).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 30)).await;
    outbox.idle().await.expect("idle");
    assert!(store.inner.is_empty());
    assert_each_once(&recorder, &ids);
}

// S3-130, S3-140
#[tokio::test(start_paused = true)]
async fn writer_only_purges_by_age_whatever_the_status() {
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(DAY, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    sleep(DAY - HOUR).await;
    let late = commit(&store.inner, &outbox, events("Made", 1)).await;
    sleep(HOUR * 3).await;
    assert_eq!(store.inner.rows().into_iter().map(|row| row.id).collect::<Vec<_>>(), late);
}

// S3-128
#[tokio::test(start_paused = true)]
async fn purger_goes_on_after_a_failure() {
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .purge_at_age(DAY, HOUR)
        .start()
        .expect("start");
    commit(&store.inner, &outbox, events("Made", 10)).await;
    store.break_call(Call::Purge, Fault::Fail);
    sleep(DAY * 2).await;
    assert_eq!(store.inner.len(), 10);
    store.break_call(Call::Purge, Fault::Panic);
    sleep(DAY).await;
    store.fix(Call::Purge);
    sleep(HOUR * 2).await;
    assert!(store.inner.is_empty());
}
