//! Outages: they spend no attempts, do not hold up other routes and lose nothing. A single bad event is not an outage.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::admin::{Admin, Filter};
use posthaste::store::{Purge, Purgeable};
use posthaste::{
    Delivery, Destination, Event, EventId, Outbox, Outcome, Profile, Recorder, Route, Routes, Status, Store,
};
use tokio::time::{Instant, sleep};

use crate::support::*;

/// A destination that can go away and come back.
#[derive(Clone, Debug)]
struct Remote {
    up: Arc<AtomicBool>,
    /// When each event arrived, whether it was accepted or not.
    tried: Arc<Mutex<Vec<(Instant, EventId)>>>,
    taken: Recorder,
    connection_failed: bool,
}

impl Remote {
    fn down() -> Self {
        Self { up: Arc::default(), tried: Arc::default(), taken: Recorder::new(), connection_failed: true }
    }

    fn silent() -> Self {
        Self { connection_failed: false, ..Self::down() }
    }

    fn up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    fn tried(&self) -> usize {
        self.tried.lock().expect("tried").len()
    }

    fn tries(&self) -> Vec<(Instant, EventId)> {
        self.tried.lock().expect("tried").clone()
    }
}

#[async_trait]
impl Destination for Remote {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let now = Instant::now();
        self.tried.lock().expect("tried").extend(batch.iter().map(|delivery| (now, delivery.id().clone())));
        if self.up.load(Ordering::SeqCst) {
            return self.taken.deliver(batch).await;
        }
        let answer = || match self.connection_failed {
            true => Outcome::no_connection("connection refused"),
            false => Outcome::no_answer("silence"),
        };
        batch.iter().map(|_| answer()).collect()
    }

    fn profile(&self) -> Profile {
        self.taken.profile()
    }
}

async fn count(store: &FaultyStore, status: Status) -> u64 {
    store.inner.count(&Filter::status(status)).await.expect("count")
}

// T10, Invariant 7
#[tokio::test(start_paused = true)]
async fn outage_spends_no_attempts_and_loses_nothing() {
    for remote in [Remote::down(), Remote::silent()] {
        let store = FaultyStore::new();
        let outbox = single_node(&store, routes_to(&remote)).retry(plain_retry(2)).start().expect("start");
        let mut ids = commit(&store.inner, &outbox, events("Made", 50)).await;
        ids.extend(insert_foreign(&store.inner, "Made", 50));
        sleep(HOUR).await;
        assert!(store.inner.rows().iter().all(|row| row.attempts == 0 && row.status == Status::New));
        assert!(store.inner.rows().iter().any(|row| row.last_error.is_some()));

        remote.up(true);
        let took = eventually(secs(60), || remote.taken.count() == 100).await;
        assert!(took <= secs(50), "{took:?}");
        outbox.idle().await.expect("idle");
        assert_each_once(&remote.taken, &ids);
        assert_eq!(count(&store, Status::Done).await, 100);
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_a_short_outage_comes_back_with_other_events_or_alone() {
    for count in [1, 20] {
        let (store, remote) = (FaultyStore::new(), Remote::down());
        let outbox = single_node(&store, routes_to(&remote)).start().expect("start");
        let ids = commit(&store.inner, &outbox, events("Made", count)).await;
        eventually(secs(1), || remote.tried() > 0).await;
        remote.up(true);
        let took = eventually(secs(60), || remote.taken.count() == count).await;
        assert!(took <= secs(2), "the first probe comes after a second: {took:?} for {count}");
        outbox.idle().await.expect("idle");
        assert_each_once(&remote.taken, &ids);
    }
}

#[tokio::test(start_paused = true)]
async fn breaker_opens_immediately_on_a_failed_connection_and_otherwise_after_three_events_without_a_reply() {
    for (remote, tries) in [(Remote::down(), 1), (Remote::silent(), 3)] {
        let store = FaultyStore::new();
        let builder = single_node(&store, routes_to(&remote)).workers(1);
        let outbox = builder.poll_interval(HOUR).start().expect("start");
        commit(&store.inner, &outbox, events("Made", 20)).await;
        sleep(millis(50)).await;
        assert_eq!(remote.tried(), tries);
        let parked = store.inner.rows().iter().filter(|row| row.parked.is_some()).count();
        // Of three events without a reply only the third opens the breaker.
        assert_eq!(parked, 20 - (tries - 1), "all but those that were tried before it opened");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_go_after_one_second_doubling_to_ten_each_with_another_event() {
    let (store, remote) = (FaultyStore::new(), Remote::down());
    let outbox = single_node(&store, routes_to(&remote)).workers(1).start().expect("start");
    commit(&store.inner, &outbox, events("Made", 20)).await;
    sleep(secs(60)).await;

    let tries = remote.tries();
    let waits: Vec<u64> = tries.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis() as u64).collect();
    let expected = [1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000];
    assert_eq!(waits.len(), expected.len(), "{waits:?}");
    for (wait, expected) in waits.iter().zip(expected) {
        assert!((expected..expected + 50).contains(wait), "{waits:?}");
    }
    assert!(tries.windows(2).all(|pair| pair[0].1 != pair[1].1), "each with another event");
}

// A route with few events
#[tokio::test(start_paused = true)]
async fn only_event_of_a_route_survives_a_short_outage_without_a_long_wait() {
    let (store, remote) = (FaultyStore::new(), Remote::down());
    let outbox = single_node(&store, routes_to(&remote)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    sleep(secs(5)).await;
    remote.up(true);
    let took = eventually(secs(60), || remote.taken.count() == 1).await;
    assert!(took < secs(40), "{took:?}");
    outbox.idle().await.expect("idle");
    assert_each_once(&remote.taken, std::slice::from_ref(&id));
    assert_eq!(row(&store.inner, &id).attempts, 0);
}

// Invariant 4: nothing spins
#[tokio::test(start_paused = true)]
async fn open_breaker_without_any_event_makes_no_claims_of_its_own() {
    let (store, remote) = (FaultyStore::new(), Remote::down());
    let other = Recorder::new();
    let routes = routes_to(&remote).add(Route::event("Other").deliver_to(other.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || row(&store.inner, &id).last_error.is_some()).await;
    let everything = Purge::new(Purgeable::Any, Duration::ZERO, 10);
    assert_eq!(store.inner.purge_batch(&everything).await.expect("purge"), 1);
    let before = store.count(Call::Claim);
    sleep(HOUR).await;
    let claims = store.count(Call::Claim) - before;
    assert!(claims < 720 + 400, "{claims} claims in an hour");
    drop(outbox);
}

// Invariant 7, T10
#[tokio::test(start_paused = true)]
async fn two_hundred_thousand_events_of_a_dead_route_do_not_slow_a_healthy_one() {
    const PENDING_EVENTS: usize = 200_000;
    let (store, dead) = (FaultyStore::new(), Remote::down());
    let times: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
    let start = Instant::now();
    let timed = Recorder::with({
        let times = Arc::clone(&times);
        move |_| {
            *times.lock().expect("times").entry(start.elapsed().as_secs()).or_default() += 1;
            Outcome::done()
        }
    });
    let routes = Routes::new()
        .add(Route::event("Dead").deliver_to(dead.clone()))
        .add(Route::event("Fine").deliver_to(timed.clone()));
    let waiting = insert_foreign(&store.inner, "Dead", PENDING_EVENTS);
    // A slow store. With an immediate one, paused time would hide the work.
    store.break_call(Call::Claim, Fault::Delay(millis(2)));
    store.break_call(Call::Park, Fault::Delay(millis(2)));
    let outbox = single_node(&store, routes).poll_batch(500).start().expect("start");

    let mut fine = Vec::new();
    for _ in 0..200 {
        fine.extend(commit(&store.inner, &outbox, events("Fine", 10)).await);
        sleep(millis(100)).await;
    }
    for second in 0..20 {
        let delivered = times.lock().expect("times").get(&second).copied().unwrap_or(0);
        assert!(delivered >= 90, "{delivered} in second {second}");
    }
    assert_each_once(&timed, &fine);

    sleep(secs(280)).await;
    assert_written_at_most(&store, &dead, &waiting, 2);
    sleep(secs(300)).await;
    assert_written_at_most(&store, &dead, &waiting, 4);
    assert_eq!(dead.taken.count(), 0);

    dead.up(true);
    eventually(secs(600), || dead.taken.count() >= PENDING_EVENTS).await;
    sleep(HOUR).await;
    assert_each_once(&dead.taken, &waiting);
    assert_eq!(count(&store, Status::Dead).await, 0);
    assert_eq!(count(&store, Status::Done).await, (PENDING_EVENTS + fine.len()) as u64);
}

/// Settlements of events that were sent as probes are written; all other events are only parked.
fn assert_written_at_most(store: &FaultyStore, remote: &Remote, waiting: &[EventId], writes: u64) {
    let probes: HashSet<EventId> = remote.tries().into_iter().map(|(_, id)| id).collect();
    assert!(probes.len() <= 1000, "{} events were tried", probes.len());
    let worst = waiting.iter().filter(|id| !probes.contains(*id)).map(|id| store.inner.writes(id)).max();
    assert!(worst <= Some(writes), "{worst:?} writes of one row, at most {writes}");
}

// Invariant 7: the other way round
#[tokio::test(start_paused = true)]
async fn cold_events_of_a_healthy_route_come_through_a_dead_backlog() {
    let (store, dead, fine) = (FaultyStore::new(), Remote::down(), Recorder::new());
    let routes = Routes::new()
        .add(Route::event("Dead").deliver_to(dead.clone()))
        .add(Route::event("Fine").deliver_to(fine.clone()));
    insert_foreign(&store.inner, "Dead", 5000);
    let outbox = single_node(&store, routes).poll_interval(millis(100)).start().expect("start");
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.extend(insert_foreign(&store.inner, "Fine", 10));
        sleep(millis(100)).await;
    }
    eventually(secs(1), || fine.count() >= 1000).await;
    sleep(secs(600)).await;
    assert_each_once(&fine, &ids);
    drop(outbox);
}

// Invariant 7: one bad event
#[tokio::test(start_paused = true)]
async fn poison_event_cannot_keep_its_route_closed_and_ends_dead() {
    let store = FaultyStore::new();
    let taken: Arc<Mutex<HashMap<EventId, Instant>>> = Arc::default();
    let recorder = Recorder::with({
        let taken = Arc::clone(&taken);
        move |delivery| match delivery.payload_as::<String>() {
            Ok(poison) if poison == "poison" => Outcome::no_connection("it crashes the server"),
            _ => {
                taken.lock().expect("taken").insert(delivery.id().clone(), Instant::now());
                Outcome::done()
            }
        }
    });
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let outbox = single_node(&store, routes).retry(plain_retry(3)).start().expect("start");
    let poison = Event::json("Made", "poison").expect("event");
    let poison = commit(&store.inner, &outbox, vec![poison]).await.remove(0);

    let mut written = Vec::new();
    for _ in 0..6000 {
        let id = commit_one(&store.inner, &outbox, "Made").await;
        written.push((id, Instant::now()));
        sleep(millis(100)).await;
    }
    sleep(secs(60)).await;
    let dead = row(&store.inner, &poison);
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 3));
    let ids: Vec<_> = written.iter().map(|(id, _)| id.clone()).collect();
    assert!(ids.iter().all(|id| recorder.count_of(id) == 1) && recorder.count_of(&poison) >= 10);
    let taken = taken.lock().expect("taken");
    let late = written.iter().filter(|(id, at)| taken[id] - *at > secs(2)).count();
    assert!(late <= 60, "{late} of 6000 waited longer than two seconds");
}

// Invariant 7: several bad events at the head
#[tokio::test(start_paused = true)]
async fn several_poison_events_at_the_head_do_not_hold_up_other_events() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|delivery| match delivery.payload_as::<String>() {
        Ok(_) => Outcome::no_connection("it crashes the server"),
        Err(_) => Outcome::done(),
    });
    let routes = Routes::new().add(Route::event("Made").deliver_to(recorder.clone()));
    let outbox = single_node(&store, routes).retry(plain_retry(3)).start().expect("start");
    let poison = (0..5).map(|_| Event::json("Made", "poison").expect("event")).collect();
    let poison = commit(&store.inner, &outbox, poison).await;
    let mut ids = commit(&store.inner, &outbox, events("Made", 500)).await;
    eventually(secs(120), || ids.iter().filter(|id| recorder.count_of(id) > 0).count() == 500).await;
    for _ in 0..1200 {
        ids.push(commit_one(&store.inner, &outbox, "Made").await);
        sleep(secs(1)).await;
    }
    outbox.idle().await.expect("idle");
    assert!(poison.iter().all(|id| status(&store.inner, id) == Status::Dead));
    assert!(ids.iter().all(|id| recorder.count_of(id) == 1));
}

// An operator's pause
#[tokio::test(start_paused = true)]
async fn operators_pause_parks_a_route_and_resume_brings_it_back() {
    let (store, fine) = (FaultyStore::new(), Recorder::new());
    let remote = Remote::down();
    remote.up(true);
    let routes = routes_to(&remote).add(Route::event("Fine").deliver_to(fine.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    store.inner.pause("Made", "test").await.expect("pause");
    sleep(secs(6)).await;
    let mut ids = insert_foreign(&store.inner, "Made", 700);
    let others = commit(&store.inner, &outbox, events("Fine", 20)).await;
    ids.extend(commit(&store.inner, &outbox, events("Made", 20)).await);
    sleep(HOUR).await;
    assert_eq!(remote.tried(), 0, "a pause has no probes");
    assert_each_once(&fine, &others);
    assert!(store.inner.rows().iter().filter(|row| row.parked.is_some()).count() == 720);

    store.inner.resume("Made", "test").await.expect("resume");
    eventually(secs(10), || remote.taken.count() == 720).await;
    outbox.idle().await.expect("idle");
    assert_each_once(&remote.taken, &ids);
    assert_eq!(count(&store, Status::Done).await, 740);
}

// A pause while events are under way
#[tokio::test(start_paused = true)]
async fn short_pause_does_not_leave_late_parked_events_behind() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = single_node(&store, routes).workers(1).start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 20)).await;
    eventually(secs(1), || slow.gate.entered() == 1).await;
    store.inner.pause("Made", "test").await.expect("pause");
    outbox.poll_once().await.expect("poll");
    store.break_call(Call::Park, Fault::Delay(secs(3)));
    slow.gate.open();
    sleep(secs(1)).await;
    store.inner.resume("Made", "test").await.expect("resume");
    outbox.poll_once().await.expect("poll");
    outbox.poll_once().await.expect("poll");

    eventually(secs(30), || slow.inner.count() == 20).await;
    assert_each_once(&slow.inner, &ids);
}

// If every route is open, claiming stops
#[tokio::test(start_paused = true)]
async fn claiming_stops_while_every_route_is_closed_and_resumes_when_one_reopens() {
    let (store, first, second) = (FaultyStore::new(), Remote::down(), Remote::down());
    let routes = routes_to(&first).add(Route::event("Other").deliver_to(second.clone()));
    let builder = single_node(&store, routes).poll_interval(millis(100));
    let outbox = builder.start().expect("start");
    let made = insert_foreign(&store.inner, "Made", 300);
    let other = insert_foreign(&store.inner, "Other", 300);
    sleep(secs(60)).await;

    let before = store.claims_with_room();
    sleep(HOUR).await;
    let claims = store.claims_with_room() - before;
    assert!(claims < 3000, "{claims} claims in an hour; every 100 ms would be 36000");
    first.up(true);
    eventually(secs(60), || first.taken.count() == 300).await;
    second.up(true);
    eventually(secs(60), || second.taken.count() == 300).await;
    outbox.idle().await.expect("idle");
    assert_each_once(&first.taken, &made);
    assert_each_once(&second.taken, &other);
}

// S3-134, Invariant 7
#[tokio::test(start_paused = true)]
async fn outage_in_strict_mode_keeps_the_order_and_loses_nothing() {
    let (store, remote) = (FaultyStore::new(), Remote::down());
    remote.up(true);
    let routes = Routes::new()
        .add(Route::event("A").deliver_to(remote.clone()))
        .add(Route::event("B").deliver_to(Arc::new(remote.clone())));
    let outbox = Outbox::builder(store.clone(), routes).strict().poll_batch(8).start().expect("start");
    let mut ids = Vec::new();
    for n in 0..200 {
        ids.extend(commit(&store.inner, &outbox, vec![event(if n % 3 == 0 { "A" } else { "B" })]).await);
        remote.up(n % 50 < 25);
        sleep(millis(100)).await;
    }
    sleep(secs(60)).await;
    remote.up(true);
    eventually(secs(120), || remote.taken.count() >= 200).await;
    outbox.idle().await.expect("idle");
    assert_eq!(remote.taken.ids(), ids);
    assert!(store.inner.rows().iter().all(|row| row.attempts == 0 && row.status == Status::Done));
}

// Invariant 7: two outages in a row
#[tokio::test(start_paused = true)]
async fn destination_that_comes_and_goes_spends_no_attempts() {
    let (store, remote) = (FaultyStore::new(), Remote::down());
    let outbox = single_node(&store, routes_to(&remote)).retry(plain_retry(2)).start().expect("start");
    let mut ids = Vec::new();
    for n in 0..600 {
        remote.up(n % 60 > 40);
        ids.extend(commit(&store.inner, &outbox, events("Made", 5)).await);
        sleep(secs(1)).await;
    }
    remote.up(true);
    sleep(HOUR).await;
    assert_each_once(&remote.taken, &ids);
    assert!(store.inner.rows().iter().all(|row| row.status == Status::Done));
}
