//! Writers that commit, roll back, lose replies and drop receipts while faults happen.

use std::time::Duration;

use posthaste::memory::CommitFault;
use posthaste::{Admin as _, Event, EventId, MemoryWriter, Outbox};

use super::nodes::{TYPES, World};
use super::plan::{Plan, Randomness};

pub(crate) async fn run(world: &World, plan: &Plan) {
    let random = Randomness::new(fastrand::u64(..));
    let mut accidents = accidents(plan);
    for number in 0..plan.transactions {
        let outbox = world.node(random.below(world.node_count() as u32) as usize);
        write(world, plan, &random, &outbox, number).await;
        if number < plan.poison as usize {
            let poison = Event::builder("a").id(format!("poison-{number}")).json_text("{}").build().unwrap();
            committed(world, &random, &outbox, vec![poison]).await;
        }
        check_bounds(world, plan);
        tokio::time::sleep(random.millis(400)).await;
        world.supervise();
        let left = (plan.transactions - number) as u32;
        if !accidents.is_empty() && random.below(left) < accidents.len() as u32 {
            let accident = accidents.remove(random.below(accidents.len() as u32) as usize);
            inject(world, &random, accident).await;
        }
    }
}

#[derive(Clone, Copy)]
enum Accident {
    Crash,
    Shutdown,
    OutageBegins,
    OutageEnds,
    ClockStep,
    Pause,
    Resume,
    LostTail,
}

fn accidents(plan: &Plan) -> Vec<Accident> {
    let mut all = Vec::new();
    for (count, kinds) in [
        (plan.crashes, &[Accident::Crash][..]),
        (plan.shutdowns, &[Accident::Shutdown]),
        (plan.outages, &[Accident::OutageBegins, Accident::OutageEnds]),
        (plan.clock_steps, &[Accident::ClockStep]),
        (plan.pauses, &[Accident::Pause, Accident::Resume]),
        (plan.lost_tails, &[Accident::LostTail]),
    ] {
        (0..count).for_each(|_| all.extend_from_slice(kinds));
    }
    all
}

async fn inject(world: &World, random: &Randomness, accident: Accident) {
    let node = random.below(world.node_count() as u32) as usize;
    match accident {
        Accident::Crash => world.crash(node),
        Accident::Shutdown => world.restart(node).await,
        Accident::OutageBegins => world.begin_outage(random.percent(50).then_some(node)),
        Accident::OutageEnds => world.end_outages(),
        Accident::LostTail => world.lose_tail(1 + random.below(5) as usize),
        Accident::ClockStep => world.store.step_clock(random.percent(50), random.millis(20_000)),
        Accident::Pause => {
            world.store.pause("b", "simulation").await.unwrap();
        }
        Accident::Resume => {
            world.store.resume("b", "simulation").await.unwrap();
        }
    }
}

fn check_bounds(world: &World, plan: &Plan) {
    for node in 0..world.node_count() {
        let held = world.node(node).held();
        if held > plan.max_held() {
            world
                .journal
                .violation(format!("node {node} holds {held} events, {} are allowed", plan.max_held()));
        }
    }
}

fn events(plan: &Plan, random: &Randomness, number: usize) -> Vec<Event> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|n| {
            let event = Event::builder(TYPES[random.below(2) as usize]).id(format!("{number}-{n}"));
            // Most are small, and some are as large as a whole queue.
            let size = if random.percent(20) {
                random.below(Plan::MAX_PAYLOAD_BYTES as u32 - 10) as usize
            } else {
                0
            };
            let event = event.json_text(format!("\"{}\"", "x".repeat(size)));
            // Even a plan without faults has delays.
            let delayed = !plan.strict && random.percent(10);
            let event = if delayed {
                event.deliver_after(random.millis(20_000) + Duration::from_millis(1))
            } else {
                event
            };
            event.build().unwrap()
        })
        .collect()
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id().clone()).collect()
}

/// One transaction, ended in one of many ways. The journal records its real outcome.
async fn write(world: &World, plan: &Plan, random: &Randomness, outbox: &Outbox, number: usize) {
    let events = events(plan, random, number);
    // Delayed events may be overtaken, and so may late commits: strict plans have neither.
    if plan.strict {
        return committed(world, random, outbox, events).await;
    }
    match random.below(if plan.calm { 7 } else { 11 }) {
        0 => rolled_back(world, outbox, events).await,
        1 => dropped(world, outbox, events).await,
        2 => with_savepoint(world, outbox, events, random.percent(50)).await,
        3 => with_raw_savepoint(world, outbox, events).await,
        4 => by_hand(world, random, outbox, events).await,
        5 => said_committed_but_rolled_back(world, outbox, events).await,
        6 => aborted(world, outbox, events).await,
        7 => with_fault(world, outbox, events, CommitFault::RolledBack).await,
        8 => with_fault(world, outbox, events, CommitFault::AnswerLostApplied).await,
        9 => with_fault(world, outbox, events, CommitFault::AnswerLostNotApplied).await,
        _ => committed(world, random, outbox, events).await,
    }
    // Most transactions are ordinary.
    let ordinary = self::events(plan, random, 10_000 + number);
    committed(world, random, outbox, ordinary).await;
}

async fn committed(world: &World, random: &Randomness, outbox: &Outbox, events: Vec<Event>) {
    let ids = ids(&events);
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    if random.percent(5) {
        // A transaction that stays open longer than the lease with which its rows were born.
        tokio::time::sleep(random.millis(15_000)).await;
    }
    tx.commit().await.unwrap();
    world.journal.committed(&ids);
}

async fn rolled_back(world: &World, outbox: &Outbox, events: Vec<Event>) {
    world.journal.rolled_back(&ids(&events));
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    tx.rollback().await.unwrap();
}

async fn dropped(world: &World, outbox: &Outbox, events: Vec<Event>) {
    world.journal.rolled_back(&ids(&events));
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    drop(tx);
}

async fn with_savepoint(world: &World, outbox: &Outbox, mut events: Vec<Event>, keep: bool) {
    let inner = vec![events.pop().unwrap()];
    let (outer_ids, inner_ids) = (ids(&events), ids(&inner));
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.write_all(inner).await.unwrap();
    if keep {
        savepoint.release().await.unwrap();
        world.journal.committed(&inner_ids);
    } else {
        savepoint.rollback().await.unwrap();
        world.journal.rolled_back(&inner_ids);
    }
    tx.commit().await.unwrap();
    world.journal.committed(&outer_ids);
}

/// A savepoint that the `Tx` does not know of: only the proof before COMMIT shows what it undid.
async fn with_raw_savepoint(world: &World, outbox: &Outbox, events: Vec<Event>) {
    world.journal.rolled_back(&ids(&events));
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    (*tx).savepoint().await.unwrap();
    tx.write_all(events).await.unwrap();
    tx.rollback_to_savepoint().await.unwrap();
    tx.commit().await.unwrap();
}

/// A transaction of the service, with a receipt that is passed on or dropped.
async fn by_hand(world: &World, random: &Randomness, outbox: &Outbox, events: Vec<Event>) {
    let ids = ids(&events);
    let mut connection = world.store.connect();
    connection.begin().await.unwrap();
    let receipt = MemoryWriter::new(&world.store, outbox).insert_all(&mut connection, events).await.unwrap();
    connection.commit().await.unwrap();
    world.journal.committed(&ids);
    if random.percent(50) {
        outbox.committed(receipt);
    }
}

async fn said_committed_but_rolled_back(world: &World, outbox: &Outbox, events: Vec<Event>) {
    world.journal.rolled_back(&ids(&events));
    let mut connection = world.store.connect();
    connection.begin().await.unwrap();
    let receipt = MemoryWriter::new(&world.store, outbox).insert_all(&mut connection, events).await.unwrap();
    outbox.committed(receipt);
    connection.rollback().await.unwrap();
}

/// A failed statement aborted the transaction, and COMMIT returns `Ok` anyway.
async fn aborted(world: &World, outbox: &Outbox, events: Vec<Event>) {
    world.journal.rolled_back(&ids(&events));
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    tx.abort();
    assert!(tx.commit().await.is_err());
}

async fn with_fault(world: &World, outbox: &Outbox, events: Vec<Event>, fault: CommitFault) {
    let ids = ids(&events);
    let mut tx = MemoryWriter::new(&world.store, outbox).begin().await.unwrap();
    tx.write_all(events).await.unwrap();
    tx.fail_next_commit(fault);
    assert!(tx.commit().await.is_err());
    if fault == CommitFault::AnswerLostApplied {
        world.journal.committed(&ids);
    } else {
        world.journal.rolled_back(&ids);
    }
}
