//! Outcomes of a delivery, and what happens to the event.

use async_trait::async_trait;
use posthaste::memory::RawRow;
use posthaste::{
    BoxError, Delivery, Destination, Event, EventId, Outbox, Outcome, Profile, Recorder, RetryAfter, Route,
    Routes, Status, Unrecoverable,
};
use tokio::time::sleep;

use crate::support::*;

/// Writes one event to a destination with at most three attempts.
async fn outcome_of(destination: &(impl Destination + Clone)) -> (FaultyStore, Outbox, EventId) {
    let store = FaultyStore::new();
    let builder = single_node(&store, routes_to(destination)).retry(plain_retry(3));
    let outbox = builder.poll_interval(HOUR).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    (store, outbox, id)
}

// S2-04, S2-35, S3-77
#[tokio::test(start_paused = true)]
async fn delivered_event_is_done_and_the_error_of_earlier_attempts_is_cleared() {
    let recorder = Recorder::with(|delivery| match delivery.attempt {
        1 => Outcome::retry("at first"),
        _ => Outcome::done(),
    });
    let (store, _outbox, id) = outcome_of(&recorder).await;
    eventually(secs(1), || status(&store.inner, &id) == Status::Done).await;
    let row = row(&store.inner, &id);
    assert_eq!((row.attempts, row.last_error, row.locked_by), (1, None, None));
    assert!(row.done_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn event_is_tried_max_attempts_times_and_is_then_dead() {
    for attempts in [1, 3] {
        let (store, recorder) = (FaultyStore::new(), Recorder::with(|_| Outcome::retry("busy")));
        let outbox = single_node(&store, routes_to(&recorder)).max_attempts(attempts).start().expect("start");
        let id = commit_one(&store.inner, &outbox, "Made").await;
        eventually(secs(5), || status(&store.inner, &id) == Status::Dead).await;
        assert_eq!((row(&store.inner, &id).attempts, recorder.count()), (attempts, attempts as usize));
    }
}

// S3-66, S3-77, S3-108, T8
#[tokio::test(start_paused = true)]
async fn deferred_event_spends_no_attempt_and_its_deferrals_are_counted() {
    let recorder = Recorder::with(|delivery| match delivery.deferrals {
        0..20 => Outcome::Defer(secs(7)),
        _ => Outcome::done(),
    });
    let (store, _outbox, id) = outcome_of(&recorder).await;
    eventually(secs(1), || row(&store.inner, &id).deferrals == 1).await;
    assert_eq!(status(&store.inner, &id), Status::New);

    let took = eventually(secs(200), || status(&store.inner, &id) == Status::Done).await;
    assert!((secs(139)..secs(142)).contains(&took), "20 times 7 s, not {took:?}");
    let row = row(&store.inner, &id);
    assert_eq!((row.attempts, row.deferrals), (0, 20));
    assert!(recorder.deliveries().iter().all(|delivery| delivery.attempt == 1));
}

// S3-78, S3-110
#[tokio::test(start_paused = true)]
async fn retry_after_spends_attempts_with_the_destinations_delay_and_ends_dead() {
    let recorder = Recorder::with(|_| Outcome::retry_after(secs(30), "busy"));
    let (store, _outbox, id) = outcome_of(&recorder).await;
    eventually(secs(1), || row(&store.inner, &id).attempts == 1).await;
    assert_eq!(status(&store.inner, &id), Status::Retry);
    let took = eventually(secs(100), || status(&store.inner, &id) == Status::Dead).await;
    assert!((secs(59)..secs(62)).contains(&took), "two waits of 30 s, not {took:?}");
    let row = row(&store.inner, &id);
    assert_eq!((row.attempts, row.last_error.as_deref()), (3, Some("busy")));
}

// S3-77, S3-100, S3-108, S3-109
#[tokio::test(start_paused = true)]
async fn dead_outcome_is_dead_immediately_with_the_reason_and_no_attempt() {
    let recorder = Recorder::with(|_| Outcome::Dead("no such customer".to_owned()));
    let (store, _outbox, id) = outcome_of(&recorder).await;
    eventually(secs(1), || status(&store.inner, &id) == Status::Dead).await;
    sleep(HOUR).await;
    let row = row(&store.inner, &id);
    assert_eq!((row.attempts, row.last_error.as_deref()), (0, Some("no such customer")));
    assert_eq!(recorder.count(), 1);
}

// S2-03, S3-78, S3-79, S3-80, S3-100
#[tokio::test(start_paused = true)]
async fn errors_of_a_handler_decide_the_outcome_through_the_question_mark() {
    async fn fail(event: Delivery) -> Result<(), BoxError> {
        match event.payload_as::<String>()?.as_str() {
            "never" => Err(Unrecoverable("bad".to_owned()))?,
            "later" => Err(RetryAfter::new(secs(40), "slow down"))?,
            _ => Err("anything else")?,
        }
        Ok(())
    }
    let store = FaultyStore::new();
    let routes = Routes::new().handle("Made", fail);
    let outbox = single_node(&store, routes).retry(plain_retry(2)).start().expect("start");
    let batch = ["never", "later", "else"].map(|what| Event::json("Made", what).expect("event"));
    let ids = commit(&store.inner, &outbox, batch.into()).await;
    outbox.idle().await.expect("idle");

    let never = row(&store.inner, &ids[0]);
    assert_eq!((never.status, never.attempts, never.last_error.as_deref()), (Status::Dead, 0, Some("bad")));
    let later = row(&store.inner, &ids[1]);
    assert_eq!((later.status, later.attempts), (Status::Retry, 1));
    let wait = later.available_at.since(store.inner.now());
    assert!((secs(39)..=secs(40)).contains(&wait), "{wait:?}");
    assert_eq!(row(&store.inner, &ids[2]).last_error.as_deref(), Some("anything else"));

    eventually(secs(60), || count_in(&store.inner, Status::Dead) == 3).await;
    assert_eq!(row(&store.inner, &ids[1]).attempts, 2, "RetryAfter counts against the limit");
}

// F47
#[tokio::test(start_paused = true)]
async fn panics_are_failed_attempts_and_lose_no_worker() {
    let (store, recorder, gate) = (FaultyStore::new(), Recorder::new(), Gate::closed());
    gate.open();
    let routes = Routes::new().handle("Made", {
        let (recorder, gate) = (recorder.clone(), gate.clone());
        move |event: Delivery| {
            let n: u32 = event.payload_as().expect("a number");
            assert!(event.attempt > 1 || !n.is_multiple_of(200), "before the first await");
            let (recorder, gate) = (recorder.clone(), gate.clone());
            async move {
                gate.pass().await;
                sleep(millis(1)).await;
                assert!(event.attempt > 1 || n % 200 != 100, "after an await");
                recorder.deliver(&[event]).await.remove(0)
            }
        }
    });
    let outbox = single_node(&store, routes).retry(plain_retry(3)).start().expect("start");
    let batch: Vec<Event> = (0..2000u32).map(|n| Event::json("Made", &n).expect("event")).collect();
    let mut ids = Vec::new();
    for part in batch.chunks(500) {
        ids.extend(commit(&store.inner, &outbox, part.to_vec()).await);
    }
    eventually(secs(60), || recorder.count() == 2000).await;
    outbox.idle().await.expect("idle");

    assert_each_once(&recorder, &ids);
    let failed: Vec<_> = store.inner.rows().into_iter().filter(|row| row.attempts == 1).collect();
    assert_eq!(failed.len(), 20, "1 % panicked once");
    assert_eq!(count_in(&store.inner, Status::Done), 2000);

    let gated = Gated::new(Recorder::new());
    drop(outbox);
    let outbox = single_node(&store, routes_to(&gated)).start().expect("start");
    commit(&store.inner, &outbox, events("Made", 20)).await;
    sleep(secs(1)).await;
    assert_eq!(gated.gate.max_inside(), 4);
}

// F47
#[tokio::test(start_paused = true)]
async fn all_workers_survive_many_panics() {
    let store = FaultyStore::new();
    let gated = Gated::new(Recorder::new());
    let routes = routes_to(&gated).handle("Bad", async |_: Delivery| {
        if true {
            panic!("always");
        }
    });
    let outbox = single_node(&store, routes).retry(plain_retry(2)).start().expect("start");
    let bad = commit(&store.inner, &outbox, events("Bad", 40)).await;
    eventually(secs(10), || count_in(&store.inner, Status::Dead) == 40).await;
    let dead = row(&store.inner, &bad[0]);
    assert_eq!(dead.last_error.as_deref(), Some("the destination panicked: always"));
    assert_eq!(dead.attempts, 2);

    commit(&store.inner, &outbox, events("Made", 20)).await;
    sleep(secs(1)).await;
    assert_eq!(gated.gate.max_inside(), 4, "as many as before");
    gated.gate.open();
    outbox.idle().await.expect("idle");
    assert_eq!(gated.inner.count(), 20);
}

#[tokio::test(start_paused = true)]
async fn timeout_of_a_handler_is_a_failed_attempt() {
    let slow = Slow::new(HOUR, Recorder::new());
    let (store, _outbox, id) = outcome_of(&slow).await;
    let took = eventually(secs(100), || row(&store.inner, &id).attempts == 1).await;
    assert!((secs(59)..secs(62)).contains(&took), "{took:?}");
    assert_eq!(row(&store.inner, &id).last_error.as_deref(), Some("no reply within 60s"));
    eventually(secs(200), || status(&store.inner, &id) == Status::Dead).await;
    assert_eq!(slow.inner.count(), 0);
}

// Invariant 7
#[tokio::test(start_paused = true)]
async fn timeout_of_a_publisher_is_an_outage_and_spends_no_attempt() {
    let slow = Slow::new(HOUR, Recorder::new().publisher(10));
    let (store, _outbox, id) = outcome_of(&slow).await;
    eventually(secs(12), || row(&store.inner, &id).last_error.is_some()).await;
    sleep(HOUR).await;
    let row = row(&store.inner, &id);
    assert_eq!((row.status, row.attempts), (Status::New, 0));
    assert_eq!(row.last_error.as_deref(), Some("no reply within 10s"));
}

#[tokio::test(start_paused = true)]
async fn timeout_of_a_route_replaces_the_default() {
    let store = FaultyStore::new();
    let slow = Slow::new(HOUR, Recorder::new());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow).timeout(secs(2)));
    let outbox = single_node(&store, routes).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(millis(2100), || row(&store.inner, &id).attempts == 1).await;
}

/// Returns this many outcomes, whatever the number of events.
#[derive(Clone)]
struct Miscounts(usize);

#[async_trait]
impl Destination for Miscounts {
    async fn deliver(&self, _: &[Delivery]) -> Vec<Outcome> {
        (0..self.0).map(|_| Outcome::done()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(4)
    }
}

// One outcome per event
#[tokio::test(start_paused = true)]
async fn destination_that_returns_too_few_outcomes_has_not_delivered_the_rest() {
    let store = FaultyStore::new();
    let outbox = single_node(&store, routes_to(&Miscounts(1))).workers(1);
    let outbox = outbox.retry(plain_retry(2)).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 4)).await;
    sleep(millis(50)).await;
    assert_eq!(status(&store.inner, &ids[0]), Status::Done);
    for id in &ids[1..] {
        let row = row(&store.inner, id);
        assert_eq!((row.status, row.attempts), (Status::Retry, 1));
        assert_eq!(row.last_error.as_deref(), Some("the destination returned 1 outcomes for 4 events"));
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_beyond_the_events_of_a_batch_are_ignored() {
    let store = FaultyStore::new();
    let outbox = single_node(&store, routes_to(&Miscounts(9))).start().expect("start");
    commit(&store.inner, &outbox, events("Made", 4)).await;
    outbox.idle().await.expect("idle");
    assert_eq!(count_in(&store.inner, Status::Done), 4);
}

// S3-93
#[tokio::test(start_paused = true)]
async fn malformed_rows_are_dead_with_the_reason_while_the_rest_is_delivered() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let made = || RawRow::of_type("Made");
    let bad = [
        (made().with_headers("{not json"), "header"),
        (made().with_status_code(99), "unknown status code 99"),
        (made().with_attempts(-3), "negative attempts"),
        (made().without_payload(), "no payload"),
    ];
    let mut good = insert_foreign(&store.inner, "Made", 3);
    let mut expected = Vec::new();
    for (raw, reason) in bad {
        expected.push((raw.id.clone(), reason));
        store.inner.insert_raw(raw).expect("new");
        good.extend(insert_foreign(&store.inner, "Made", 2));
    }
    let outbox = single_node(&store, routes_to(&recorder)).poll_batch(3).start().expect("start");
    outbox.idle().await.expect("idle");

    assert_each_once(&recorder, &good);
    for (id, reason) in expected {
        let row = row(&store.inner, &id);
        assert_eq!(row.status, Status::Dead, "{reason}");
        let error = row.last_error.expect("a reason");
        assert!(error.starts_with("malformed: ") && error.contains(reason), "{reason}: {error}");
    }
    outbox.shutdown().await;
}
