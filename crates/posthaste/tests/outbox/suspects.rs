//! Events that kill the process that delivers them, and processes that die for other reasons.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::memory::RawRow;
use posthaste::store::{MAX_LOST_LEASES, SUSPECT_LOST_LEASES};
use posthaste::{
    Delivery, Destination, EventId, MemoryStore, Outbox, Outcome, Profile, Recorder, Route, Routes, Status,
};
use tokio::time::sleep;

use crate::support::*;

const LEASE_DURATION: std::time::Duration = secs(3);

/// Takes a while for each event. A poison event ends the process: the test drops the engine then.
#[derive(Clone)]
struct Process {
    taken: Recorder,
    dying: Arc<AtomicBool>,
}

impl Process {
    fn new(taken: &Recorder) -> Self {
        Self { taken: taken.clone(), dying: Arc::default() }
    }

    fn is_dying(&self) -> bool {
        self.dying.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Destination for Process {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        if batch[0].event_type() == "Poison" {
            self.dying.store(true, Ordering::SeqCst);
        }
        if self.is_dying() {
            std::future::pending::<()>().await;
        }
        sleep(millis(20)).await;
        self.taken.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

fn start(store: &MemoryStore, process: &Process) -> Outbox {
    let route = |event_type: &str| Route::event(event_type.to_owned()).deliver_to(process.clone());
    let routes = Routes::new().add(route("Made")).add(route("Poison"));
    let builder = Outbox::builder(FaultyStore::on(store), routes).lease(LEASE_DURATION);
    builder.poll_interval(millis(100)).poll_batch(500).start().expect("start")
}

/// Keeps this many processes running, each restarted when it dies, until nothing is pending.
async fn supervise(store: &MemoryStore, taken: &Recorder, processes: usize) -> usize {
    let begin = || {
        let process = Process::new(taken);
        (start(store, &process), process)
    };
    let mut running: Vec<_> = (0..processes).map(|_| begin()).collect();
    let mut deaths = 0;
    while store.rows().iter().any(|row| row.status.is_pending()) {
        sleep(millis(10)).await;
        for slot in &mut running {
            if slot.1.is_dying() {
                deaths += 1;
                *slot = begin();
            }
        }
        assert!(deaths <= 100, "the poison lives on");
    }
    deaths
}

async fn poison_dies_alone(processes: usize) {
    let (store, taken) = (MemoryStore::new(), Recorder::new());
    let mut healthy = insert_foreign(&store, "Made", 100);
    let poison = insert_foreign(&store, "Poison", 1).remove(0);
    healthy.extend(insert_foreign(&store, "Made", 100));
    let deaths = supervise(&store, &taken, processes).await;
    let dead: Vec<_> = store.rows().into_iter().filter(|row| row.status == Status::Dead).collect();
    assert_eq!(dead.iter().map(|row| &row.id).collect::<Vec<_>>(), [&poison]);
    assert_eq!(
        dead[0].last_error.as_deref(),
        Some("its leases were lost 20 times; its delivery may crash the process")
    );
    assert_eq!((dead[0].lost_leases, dead[0].attempts), (MAX_LOST_LEASES, 0));
    assert_eq!(deaths, MAX_LOST_LEASES as usize);
    assert_eq!(count_in(&store, Status::Done), healthy.len(), "every other event was delivered");
}

#[tokio::test(start_paused = true)]
async fn event_that_kills_its_process_is_dead_and_no_event_that_was_held_with_it() {
    poison_dies_alone(1).await;
}

#[tokio::test(start_paused = true)]
async fn event_that_kills_its_process_is_the_only_dead_one_with_two_processes() {
    poison_dies_alone(2).await;
}

/// A process may keep dying for another reason: its events wait for a process that lives.
#[tokio::test(start_paused = true)]
async fn crash_loop_makes_no_event_dead_however_long_it_lasts() {
    let store = MemoryStore::new();
    insert_foreign(&store, "Made", 300);
    for _ in 0..200 {
        let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
        let routes = Routes::new().add(Route::event("Made").deliver_to(slow));
        let builder =
            Outbox::builder(faulty, routes).lease(secs(1)).poll_interval(millis(100)).poll_batch(500);
        let outbox = builder.start().expect("start");
        // Between one and two leases: long enough to take over what the previous one held.
        sleep(millis(1000 + fastrand::u64(0..1000))).await;
        drop(outbox);
    }
    let rows = store.rows();
    assert!(rows.iter().any(|row| row.lost_leases >= SUSPECT_LOST_LEASES), "they lost many leases");
    assert!(rows.iter().all(|row| row.status == Status::New && row.attempts == 0), "and none died");

    let recorder = Recorder::new();
    let outbox = start(&store, &Process::new(&recorder));
    eventually(HOUR, || count_in(&store, Status::Done) == 300).await;
    drop(outbox);
}

/// A suspect that takes long does not hold up all other events for ever.
#[tokio::test(start_paused = true)]
async fn suspects_leave_other_events_their_turn() {
    let store = MemoryStore::new();
    insert_foreign(&store, "Slow", 5);
    for _ in 0..=SUSPECT_LOST_LEASES {
        let routes = Routes::new().handle("Slow", async |_: Delivery| std::future::pending::<()>().await);
        let builder = Outbox::builder(FaultyStore::on(&store), routes).lease(secs(1));
        let outbox = builder.poll_interval(millis(100)).poll_batch(500).start().expect("start");
        sleep(millis(1500)).await;
        drop(outbox);
    }
    assert!(store.rows().iter().all(|row| row.lost_leases >= SUSPECT_LOST_LEASES));
    let (recorder, routes) = (Recorder::new(), Routes::new());
    let routes = routes.handle("Slow", async |_: Delivery| sleep(secs(10)).await);
    let routes = routes.add(Route::event("Made").deliver_to(recorder.clone()));
    let builder = Outbox::builder(FaultyStore::on(&store), routes).lease(secs(1)).poll_interval(millis(100));
    let outbox = builder.start().expect("start");
    sleep(secs(5)).await;
    for n in 1..=5 {
        insert_foreign(&store, "Made", 20);
        eventually(secs(30), || recorder.count() == 20 * n).await;
    }
    eventually(secs(300), || count_in(&store, Status::Done) == 105).await;
    drop(outbox);
}

/// While one slow delivery runs and a suspect waits for its end, the other events go on.
#[tokio::test(start_paused = true)]
async fn suspect_that_waits_for_a_slow_delivery_does_not_keep_everything_waiting() {
    let store = store_with_suspect().await;
    let (slow, quick, suspects) = (Gated::new(Recorder::new()), Recorder::new(), Recorder::new());
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(suspects.clone()))
        .add(Route::event("Slow").deliver_to(slow.clone()))
        .add(Route::event("Quick").deliver_to(quick.clone()));
    insert_foreign(&store, "Slow", 1);
    let builder =
        Outbox::builder(FaultyStore::on(&store), routes).lease(LEASE_DURATION).poll_interval(millis(100));
    let outbox = builder.handler_timeout(HOUR).start().expect("start");
    eventually(secs(5), || slow.gate.entered() == 1).await;
    sleep(secs(60)).await;
    for n in 1..=5 {
        insert_foreign(&store, "Quick", 10);
        eventually(secs(15), || quick.count() == 10 * n).await;
    }
    assert_eq!(suspects.count(), 0, "it is never begun beside another");
    slow.gate.open();
    eventually(secs(60), || suspects.count() == 1).await;
    drop(outbox);
}

/// A start that the store could not count must not happen, because it could repeat for ever.
#[tokio::test(start_paused = true)]
async fn suspect_is_not_begun_while_its_start_cannot_be_counted() {
    let store = store_with_suspect().await;
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    faulty.break_call(Call::Renew, Fault::Fail);
    let outbox = start_gated(&faulty, &slow);
    sleep(secs(60)).await;
    assert_eq!(slow.gate.entered(), 0, "it waits");
    faulty.fix(Call::Renew);
    eventually(secs(60), || slow.gate.entered() == 1).await;
    drop(outbox);
}

/// A start that the store counted although its reply was lost did not happen.
#[tokio::test(start_paused = true)]
async fn starts_that_did_not_happen_make_no_event_dead() {
    let store = store_with_suspect().await;
    let (faulty, slow) = (FaultyStore::on(&store), Gated::new(Recorder::new()));
    faulty.break_call(Call::Renew, Fault::LoseAnswer);
    let outbox = start_gated(&faulty, &slow);
    eventually(HOUR, || faulty.count(Call::Renew) > 3 * MAX_LOST_LEASES as usize).await;
    faulty.fix(Call::Renew);
    eventually(HOUR, || slow.gate.entered() == 1).await;
    drop(outbox);
}

/// One event that was being delivered whenever its process ended.
async fn store_with_suspect() -> MemoryStore {
    let store = MemoryStore::new();
    insert_foreign(&store, "Made", 1);
    lose_leases(&store).await;
    store
}

fn start_gated(faulty: &FaultyStore, slow: &Gated<Recorder>) -> Outbox {
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    Outbox::builder(faulty.clone(), routes)
        .lease(LEASE_DURATION)
        .poll_interval(millis(100))
        .start()
        .expect("start")
}

/// Lets due rows lose so many leases that they are suspects.
async fn lose_leases(store: &MemoryStore) {
    for _ in 0..=SUSPECT_LOST_LEASES {
        let slow = Gated::new(Recorder::new());
        let outbox = start_gated(&FaultyStore::on(store), &slow);
        eventually(secs(30), || slow.gate.entered() > 0).await;
        drop(outbox);
    }
}

/// An event that ran beside a suspect would lose its lease with it, and could be what kills the process.
#[tokio::test(start_paused = true)]
async fn nothing_is_begun_while_a_suspect_runs() {
    let (store, slow, quick) = (store_with_suspect().await, Gated::new(Recorder::new()), Recorder::new());
    let routes = Routes::new()
        .add(Route::event("Made").deliver_to(slow.clone()))
        .add(Route::event("Quick").deliver_to(quick.clone()));
    let builder =
        Outbox::builder(FaultyStore::on(&store), routes).lease(LEASE_DURATION).poll_interval(millis(100));
    let outbox = builder.start().expect("start");
    eventually(secs(30), || slow.gate.entered() == 1).await;
    insert_foreign(&store, "Quick", 10);
    sleep(secs(20)).await;
    assert_eq!(quick.count(), 0, "they wait for its end");
    slow.gate.open();
    eventually(secs(5), || quick.count() == 10).await;
    drop(outbox);
}

/// Other events get their turn for as long as a suspect kept them waiting.
#[tokio::test(start_paused = true)]
async fn suspect_does_not_follow_another_immediately() {
    let (store, slow) = (MemoryStore::new(), Gated::new(Recorder::new()));
    insert_foreign(&store, "Made", 2);
    lose_leases(&store).await;
    let outbox = start_gated(&FaultyStore::on(&store), &slow);
    eventually(secs(30), || slow.gate.entered() == 1).await;
    sleep(secs(20)).await;
    slow.gate.admit(1);
    sleep(secs(19)).await;
    assert_eq!(slow.gate.entered(), 1, "other events have their turn");
    eventually(secs(5), || slow.gate.entered() == 2).await;
    drop(outbox);
}

fn start_strict(store: &MemoryStore, slow: &Gated<Recorder>) -> Outbox {
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let builder = Outbox::builder(FaultyStore::on(store), routes).strict().poll_interval(millis(100));
    builder.handler_timeout(HOUR).start().expect("start")
}

async fn lose_leases_in_order(store: &MemoryStore) {
    for _ in 0..=SUSPECT_LOST_LEASES {
        let slow = Gated::new(Recorder::new());
        let outbox = start_strict(store, &slow);
        eventually(secs(60), || slow.gate.entered() == 1).await;
        drop(outbox);
    }
}

/// Delivers all events, each after a while: a suspect could have begun long before.
async fn delivered_slowly(store: &MemoryStore, count: usize) -> Vec<EventId> {
    let slow = Gated::new(Recorder::new());
    let outbox = start_strict(store, &slow);
    for n in 1..=count {
        eventually(HOUR, || slow.gate.entered() == n).await;
        sleep(secs(600)).await;
        slow.gate.admit(1);
    }
    eventually(secs(60), || slow.inner.count() == count).await;
    drop(outbox);
    slow.inner.ids()
}

/// In strict order events behind a suspect wait for it, whether they are suspects or not.
#[tokio::test(start_paused = true)]
async fn nothing_overtakes_a_suspect_in_strict_order() {
    for suspects in [1, 5] {
        let store = MemoryStore::new();
        let mut ids = insert_foreign(&store, "Made", suspects);
        lose_leases_in_order(&store).await;
        ids.extend(insert_foreign(&store, "Made", 3));
        assert_eq!(delivered_slowly(&store, ids.len()).await, ids);
    }
}

/// A suspect does not overtake older events either.
#[tokio::test(start_paused = true)]
async fn suspect_overtakes_nothing_in_strict_order() {
    let store = MemoryStore::new();
    let later = store.now() + HOUR;
    let delayed = |_| {
        let raw = RawRow::of_type("Made").with_available_at(later);
        let id = raw.id.clone();
        store.insert_raw(raw).expect("a new id");
        id
    };
    let mut ids: Vec<_> = (0..3).map(delayed).collect();
    ids.extend(insert_foreign(&store, "Made", 1));
    lose_leases_in_order(&store).await;
    sleep(HOUR).await;
    assert_eq!(delivered_slowly(&store, ids.len()).await, ids);
}
