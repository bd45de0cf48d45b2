//! One owner at a time: fencing, renewal, takeover after a crash, and several engines on one store.

use std::time::Duration;

use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::store::MAX_LOST_LEASES;
use posthaste::{Destination, MemoryStore, Outbox, Outcome, Recorder, Status};
use tokio::time::{Instant, sleep};

use crate::support::*;

const LEASE_DURATION: Duration = secs(3);

fn node(faulty: &FaultyStore, destination: &(impl Destination + Clone)) -> Outbox {
    let builder = Outbox::builder(faulty.clone(), routes_to(destination))
        .lease(LEASE_DURATION)
        .poll_interval(millis(100));
    builder.start().expect("start")
}

/// A node that has claimed an event, works on it, and from then on cannot reach the store to renew or to claim.
struct StaleNode {
    faulty: FaultyStore,
    slow: Gated<Recorder>,
    outbox: Outbox,
}

impl StaleNode {
    async fn with(store: &MemoryStore, answer: fn() -> Outcome) -> Self {
        let faulty = FaultyStore::on(store);
        let slow = Gated::new(Recorder::with(move |_| answer()));
        let outbox = node(&faulty, &slow);
        eventually(secs(1), || slow.gate.entered() == 1).await;
        faulty.break_call(Call::Renew, Fault::Fail);
        faulty.break_call(Call::Claim, Fault::Fail);
        Self { faulty, slow, outbox }
    }

    /// Lets the handler end, and waits for its write-back.
    async fn end(&self) {
        let before = self.faulty.count(Call::Settle);
        self.slow.gate.open();
        eventually(secs(1), || self.faulty.count(Call::Settle) > before).await;
        sleep(millis(10)).await;
    }
}

// T4, Invariant 5, S0-19
#[tokio::test(start_paused = true)]
async fn failure_of_a_stale_worker_changes_nothing_while_another_works() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Made", 1).remove(0);
    let stale = StaleNode::with(&store, || Outcome::retry("stale")).await;
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    let other = node(&faulty, &slow);
    eventually(secs(5), || slow.gate.entered() == 1).await;
    let held_by_other = row(&store, &id).locked_by;

    stale.end().await;
    let row_now = row(&store, &id);
    assert_eq!((row_now.status, row_now.attempts, row_now.last_error), (Status::New, 0, None));
    assert_eq!(row_now.locked_by, held_by_other);

    slow.gate.open();
    eventually(secs(1), || status(&store, &id) == Status::Done).await;
    assert_each_once(&slow.inner, &[id]);
    drop((stale.outbox, other));
}

// T4, S0-12, S0-13
#[tokio::test(start_paused = true)]
async fn success_of_a_stale_worker_is_accepted_while_the_row_is_pending() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Made", 1).remove(0);
    let stale = StaleNode::with(&store, Outcome::done).await;
    let faulty = FaultyStore::on(&store);
    let slow = Gated::new(Recorder::with(|_| Outcome::retry("too late")));
    let other = node(&faulty, &slow);
    eventually(secs(5), || slow.gate.entered() == 1).await;

    stale.end().await;
    assert_eq!(status(&store, &id), Status::Done, "it was delivered, whichever engine reports it");
    slow.gate.open();
    sleep(secs(60)).await;
    let row = row(&store, &id);
    assert_eq!((row.status, row.attempts, row.last_error), (Status::Done, 0, None));
    assert_eq!(slow.inner.count(), 1, "it is not tried again");
    drop((stale.outbox, other));
}

// T4, Invariant 5, D2
#[tokio::test(start_paused = true)]
async fn success_of_a_stale_worker_on_a_dead_row_is_ignored() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Made", 1).remove(0);
    let stale = StaleNode::with(&store, Outcome::done).await;
    let faulty = FaultyStore::on(&store);
    let other = node(&faulty, &Recorder::with(|_| Outcome::Dead("rejected".to_owned())));
    eventually(secs(5), || status(&store, &id) == Status::Dead).await;
    let died = row(&store, &id);

    stale.end().await;
    assert_eq!(format!("{:?}", row(&store, &id)), format!("{died:?}"));
    drop((stale.outbox, other));
}

// S3-88, T4, T1: the same engine takes its own lapsed event over
#[tokio::test(start_paused = true)]
async fn running_event_that_its_own_engine_claims_again_continues_under_the_new_lease() {
    let store = FaultyStore::new();
    let slow = Gated::new(Recorder::with(|delivery| match delivery.attempt {
        1 => Outcome::retry("once"),
        _ => Outcome::done(),
    }));
    let id = insert_foreign(&store.inner, "Made", 1).remove(0);
    let outbox = node(&store, &slow);
    eventually(secs(1), || slow.gate.entered() == 1).await;
    store.break_call(Call::Renew, Fault::Fail);
    let first = row(&store.inner, &id).locked_at;
    eventually(secs(5), || row(&store.inner, &id).locked_at > first).await;
    assert_eq!(slow.gate.entered(), 1, "no second copy");
    assert_eq!(row(&store.inner, &id).lost_leases, 0, "no owner died");

    slow.gate.open();
    eventually(millis(100), || row(&store.inner, &id).attempts == 1).await;
    eventually(secs(2), || status(&store.inner, &id) == Status::Done).await;
    assert_eq!(slow.inner.count(), 2);
    drop(outbox);
}

// S3-98, S3-114, T5
#[tokio::test(start_paused = true)]
async fn claimed_rows_that_do_not_fit_are_released_immediately() {
    let store = MemoryStore::new();
    for _ in 0..20 {
        store.insert_raw(RawRow::of_type("Made").with_payload(vec![b'1'; 1 << 20]));
    }
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_bytes(3 << 20);
    let builder = Outbox::builder(faulty.clone(), routes_to(&slow)).lease(secs(600)).workers(1).queue(queue);
    let full = builder.start().expect("start");
    sleep(millis(50)).await;
    let held = full.held();
    assert!((2..=4).contains(&held), "{held}");

    let recorder = Recorder::new();
    let other = Outbox::builder(FaultyStore::on(&store), routes_to(&recorder))
        .lease(secs(600))
        .start()
        .expect("start");
    eventually(secs(30), || recorder.count() == 20 - held).await;
    assert!(store.rows().iter().all(|row| row.lost_leases == 0));
    slow.gate.open();
    eventually(secs(30), || count_in(&store, Status::Done) == 20).await;
    let both = recorder.ids().into_iter().chain(slow.inner.ids()).collect();
    assert_same_ids(both, store.rows().into_iter().map(|row| row.id).collect());
    drop(other);
}

// T5, T-TERM, S3-85
#[tokio::test(start_paused = true)]
async fn shutdown_releases_queued_rows_immediately_and_running_ones_lapse() {
    let store = MemoryStore::new();
    let ids = insert_foreign(&store, "Made", 100);
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    let builder = Outbox::builder(faulty, routes_to(&slow)).poll_batch(200).drain(secs(1));
    let stopping = builder.start().expect("start");
    eventually(secs(1), || slow.gate.entered() == 4).await;
    let report = stopping.shutdown().await;
    assert_eq!((report.released, report.abandoned), (96, 4));

    let recorder = Recorder::new();
    let started = Instant::now();
    let next = Outbox::builder(FaultyStore::on(&store), routes_to(&recorder)).start().expect("start");
    eventually(millis(100), || recorder.count() == 96).await;
    eventually(secs(40), || recorder.count() == 100).await;
    assert!(started.elapsed() > secs(20), "the running ones were left to their leases");
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
    assert_eq!(slow.inner.count(), 0);
    drop(next);
}

// T-SLOW: timeouts are independent of the lease
#[tokio::test(start_paused = true)]
async fn handler_that_takes_three_leases_is_not_run_twice() {
    let store = MemoryStore::new();
    let recorder = Recorder::new();
    let slow = Slow::new(LEASE_DURATION * 3, recorder.clone());
    let nodes = [node(&FaultyStore::on(&store), &slow), node(&FaultyStore::on(&store), &slow)];
    let mut ids = insert_foreign(&store, "Made", 20);
    ids.extend(commit(&store, &nodes[0], events("Made", 20)).await);

    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
    assert!(store.rows().iter().all(|row| row.lost_leases == 0 && row.status == Status::Done));
}

// S2-05, S3-95, Invariant 1
#[tokio::test(start_paused = true)]
async fn events_of_a_crashed_engine_are_delivered_by_another_when_the_lease_lapses() {
    let store = MemoryStore::new();
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    let crashes = node(&faulty, &slow);
    let mut ids = insert_foreign(&store, "Made", 10);
    eventually(secs(1), || slow.gate.entered() == 4).await;
    ids.extend(commit(&store, &crashes, events("Made", 10)).await);
    let settled = faulty.count(Call::Settle);
    drop(crashes);
    slow.gate.open();

    let recorder = Recorder::new();
    let other = node(&FaultyStore::on(&store), &recorder);
    sleep(secs(2)).await;
    assert_eq!(recorder.count(), 0, "still on lease");
    eventually(secs(9), || recorder.count() == 20).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
    assert!(store.rows().iter().all(|row| row.lost_leases == 1));
    assert_eq!((faulty.count(Call::Settle), slow.inner.count()), (settled, 0), "dropped is stopped");
    drop(other);
}

// S3-94, Invariant 5
#[tokio::test(start_paused = true)]
async fn two_engines_deliver_two_thousand_events_each_exactly_once() {
    let store = MemoryStore::new();
    let recorder = Recorder::new();
    let slow = Slow::new(millis(1), recorder.clone());
    let nodes = [node(&FaultyStore::on(&store), &slow), node(&FaultyStore::on(&store), &slow)];
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.extend(commit(&store, &nodes[n % 2], events("Made", 10)).await);
        ids.extend(insert_foreign(&store, "Made", 10));
        sleep(millis(n as u64 % 7)).await;
    }
    eventually(secs(60), || count_in(&store, Status::Done) == 2000).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}

// A crash loop ends
#[tokio::test(start_paused = true)]
async fn event_that_kills_its_owner_twenty_times_is_dead() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Made", 1).remove(0);
    let mut crashes = 0;
    while status(&store, &id) == Status::New {
        let slow = Gated::new(Recorder::new());
        let outbox = node(&FaultyStore::on(&store), &slow);
        eventually(LEASE_DURATION * 20, || slow.gate.entered() == 1 || status(&store, &id) == Status::Dead)
            .await;
        crashes += slow.gate.entered();
        drop(outbox);
    }
    assert_eq!(crashes, MAX_LOST_LEASES as usize);
    let row = row(&store, &id);
    assert_eq!((row.status, row.lost_leases, row.attempts), (Status::Dead, 20, 0));
    assert_eq!(
        row.last_error.as_deref(),
        Some("its leases were lost 20 times; its delivery may crash the process")
    );
}

#[tokio::test(start_paused = true)]
async fn event_whose_lease_lapsed_in_the_queue_is_not_started() {
    let store = MemoryStore::new();
    let ids = insert_foreign(&store, "Made", 5);
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    let builder = Outbox::builder(faulty.clone(), routes_to(&slow)).lease(LEASE_DURATION).workers(1);
    let cut_off = builder.start().expect("start");
    eventually(secs(1), || slow.gate.entered() == 1).await;
    faulty.break_call(Call::Renew, Fault::Fail);
    faulty.break_call(Call::Claim, Fault::Fail);

    let recorder = Recorder::new();
    let other = node(&FaultyStore::on(&store), &recorder);
    eventually(secs(5), || recorder.count() == 5).await;
    slow.gate.open();
    sleep(HOUR).await;
    assert_eq!(slow.gate.entered(), 1, "only the one that ran already");
    assert_each_once(&recorder, &ids);
    assert_eq!(cut_off.held(), 0);
    drop(other);
}

// Invariant 5: a lost renewal
#[tokio::test(start_paused = true)]
async fn lease_renewer_that_misses_one_renewal_loses_no_lease() {
    let store = FaultyStore::new();
    let recorder = Recorder::new();
    let slow = Slow::new(secs(20), recorder.clone());
    let ids = insert_foreign(&store.inner, "Made", 4);
    let outbox = node(&store, &slow);
    let other = node(&FaultyStore::on(&store.inner), &slow);
    // Between two renewals, which are a second apart: every second one fails.
    sleep(millis(500)).await;
    for _ in 0..10 {
        store.break_next(Call::Renew, Fault::Fail);
        sleep(secs(2)).await;
    }
    sleep(secs(30)).await;
    assert_each_once(&recorder, &ids);
    drop((outbox, other));
}

// Invariant 6, T11: the store's clock decides
#[tokio::test(start_paused = true)]
async fn step_of_the_stores_clock_loses_nothing() {
    let store = MemoryStore::new();
    let flaky = Recorder::with(|delivery| match delivery.attempt {
        1 => Outcome::retry("first"),
        _ => Outcome::done(),
    });
    let outbox = node(&FaultyStore::on(&store), &flaky);
    let ids = commit(&store, &outbox, events("Made", 50)).await;
    sleep(millis(20)).await;
    store.step_clock(false, secs(60));
    sleep(secs(30)).await;
    store.step_clock(true, secs(120));
    eventually(secs(120), || count_in(&store, Status::Done) == 50).await;
    assert!(ids.iter().all(|id| flaky.count_of(id) == 2));
}
