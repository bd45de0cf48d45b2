//! The invariants: compares what happened with what must hold.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use posthaste::{EventId, EventRow, Status};

use super::destination::is_poison;
use super::journal::{DeliveryRecord, Entries};
use super::nodes::World;
use super::plan::Plan;

/// What happened in a run. Assures that a simulation in which nothing happens does not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    committed: usize,
    rolled_back: usize,
    delivered: usize,
    duplicates: usize,
    dead: usize,
    unreachable: usize,
    lost_leases: usize,
    poisoned: usize,
    lost: usize,
    calm: usize,
}

/// Checks every invariant and reports every violation of this seed.
pub(crate) fn check(seed: u64, plan: &Plan, world: &World, healed: bool) -> Summary {
    let journal = world.journal.lock();
    let rows: BTreeMap<EventId, EventRow> =
        world.store.rows().into_iter().map(|row| (row.id.clone(), row)).collect();
    let mut wrong = journal.violations.clone();
    if !healed {
        let pending: Vec<_> = rows.values().filter(|row| row.status.is_pending()).collect();
        wrong.push(format!("two hours after everything healed these still wait: {pending:#?}"));
    }
    for id in &journal.committed {
        check_committed(plan, id, rows.get(id), journal.records.get(id), &mut wrong);
    }
    for id in &journal.rolled_back {
        check_rolled_back(id, &rows, &journal, &mut wrong);
    }
    check_hooks(&journal, &mut wrong);
    if plan.strict && journal.arrivals != journal.commits {
        wrong.push(format!("written {:?}\narrived {:?}", journal.commits, journal.arrivals));
    }
    assert!(wrong.is_empty(), "seed {seed}, {plan:?}:\n{}", wrong.join("\n"));
    summary(plan, world, &journal, &rows)
}

/// Invariant 1: delivered at least once, or DEAD and visible.
fn check_committed(
    plan: &Plan,
    id: &EventId,
    row: Option<&EventRow>,
    record: Option<&DeliveryRecord>,
    wrong: &mut Vec<String>,
) {
    let none = DeliveryRecord::default();
    let record = record.unwrap_or(&none);
    let Some(row) = row else {
        wrong.push(format!("{id} was committed and is gone"));
        return;
    };
    match row.status {
        Status::Done if !delivered_everywhere(row, record) => {
            wrong.push(format!("{id} is DONE, but was not delivered: {record:?}"));
        }
        Status::Dead => check_dead(plan, row, record, wrong),
        _ => {}
    }
    // Invariants 6 and 7: the store's own count, spent only by failures.
    if row.attempts > record.failures + unreachable_that_may_count(record) {
        wrong.push(format!("{id} spent {} attempts on {record:?}", row.attempts));
    }
    let acknowledged: u32 = record.done.values().copied().max().unwrap_or(0);
    if plan.calm && !plan.strict && (acknowledged != 1 || record.starts > 2) {
        wrong.push(format!("{id} was delivered {acknowledged} times in a calm world: {record:?}"));
    }
}

/// Whether every destination of a fan-out has it.
fn delivered_everywhere(row: &EventRow, record: &DeliveryRecord) -> bool {
    let wanted: &[&str] = if row.event_type == "a" { &["a"] } else { &["one", "two"] };
    wanted.iter().all(|name| record.done.contains_key(name))
}

/// An event is DEAD only for a reason.
fn check_dead(plan: &Plan, row: &EventRow, record: &DeliveryRecord, wrong: &mut Vec<String>) {
    let spent = row.attempts >= if plan.strict { 1 } else { plan.max_attempts };
    // However many processes ended while they held it, only the event that ended them becomes DEAD.
    let poisoned = is_poison(&row.id) && row.lost_leases == 20;
    if !(spent || record.dead || poisoned) {
        wrong.push(format!("{} is DEAD without a reason: {row:?} {record:?}", row.id));
    }
    if row.done_at.is_none() || row.last_error.is_none() {
        wrong.push(format!("{} is DEAD and does not say when or why", row.id));
    }
}

/// After ten unreachable results with deliveries in between an event may spend attempts.
fn unreachable_that_may_count(record: &DeliveryRecord) -> u32 {
    record.unreachable.saturating_sub(10)
}

/// Invariant 1, the other half: no event of a rolled-back transaction.
fn check_rolled_back(
    id: &EventId,
    rows: &BTreeMap<EventId, EventRow>,
    journal: &Entries,
    wrong: &mut Vec<String>,
) {
    if rows.contains_key(id) {
        wrong.push(format!("{id} was rolled back and has a row"));
    }
    if let Some(record) = journal.records.get(id) {
        wrong.push(format!("{id} was rolled back and was delivered: {record:?}"));
    }
}

fn check_hooks(journal: &Entries, wrong: &mut Vec<String>) {
    for (id, count) in &journal.hooks.after_rollback {
        if journal.committed.contains(id) || *count > 1 {
            wrong.push(format!("after_rollback ran {count} times for {id}"));
        }
    }
    for (id, count) in &journal.hooks.after_commit {
        if *count > 1 {
            wrong.push(format!("after_commit ran {count} times for {id}"));
        }
    }
}

fn summary(plan: &Plan, world: &World, journal: &Entries, rows: &BTreeMap<EventId, EventRow>) -> Summary {
    let acknowledged = |record: &DeliveryRecord| record.done.values().copied().max().unwrap_or(0) as usize;
    Summary {
        committed: journal.committed.len(),
        rolled_back: journal.rolled_back.len(),
        delivered: journal.records.values().filter(|record| acknowledged(record) > 0).count(),
        duplicates: journal.records.values().map(|record| acknowledged(record).saturating_sub(1)).sum(),
        dead: world.dead(),
        unreachable: journal.records.values().map(|record| record.unreachable as usize).sum(),
        lost_leases: rows.values().map(|row| row.lost_leases as usize).sum(),
        poisoned: rows.values().filter(|row| row.lost_leases == 20).count(),
        lost: journal.lost.len(),
        calm: usize::from(plan.calm),
    }
}

impl Summary {
    /// Over many seeds every kind of fault must have happened, or the faults have no effect.
    pub(crate) fn assert_everything_happened(&self) {
        let Self { committed, rolled_back, delivered, duplicates, dead, .. } = *self;
        let Self { unreachable, lost_leases, poisoned, lost, calm, .. } = *self;
        let ends = [committed, rolled_back, delivered, duplicates, dead];
        for count in ends.into_iter().chain([unreachable, lost_leases, poisoned, lost, calm]) {
            assert!(count > 0, "something never happened: {self}");
        }
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.delivered += other.delivered;
        self.duplicates += other.duplicates;
        self.dead += other.dead;
        self.unreachable += other.unreachable;
        self.lost_leases += other.lost_leases;
        self.poisoned += other.poisoned;
        self.lost += other.lost;
        self.calm += other.calm;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed, {} rolled back, {} delivered, {} duplicates, {} dead, {} unreachable, {} lost leases, {} poisoned, {} lost by the store, {} calm seeds",
            self.committed,
            self.rolled_back,
            self.delivered,
            self.duplicates,
            self.dead,
            self.unreachable,
            self.lost_leases,
            self.poisoned,
            self.lost,
            self.calm
        )
    }
}
