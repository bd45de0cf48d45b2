//! Destinations that accept events, refuse them, vanish, hang and panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, EventId, Outcome, Profile};

use super::faults::FaultChance;
use super::journal::Journal;
use super::plan::Plan;

pub(crate) const PANIC_MESSAGE: &str = "a handler of the simulation panics";

/// One destination as one node reaches it.
#[derive(Debug)]
pub(crate) struct SimDestination {
    pub(crate) name: &'static str,
    pub(crate) node: usize,
    pub(crate) incarnation: u32,
    pub(crate) batch: usize,
    pub(crate) strict: bool,
    pub(crate) journal: Journal,
    pub(crate) chance: FaultChance,
    /// While set, the destination cannot be reached from this node.
    pub(crate) outage: Arc<AtomicBool>,
    /// The process of this destination has ended; the supervisor has not noticed yet.
    pub(crate) dying: Arc<AtomicBool>,
    /// The most bytes that the node may be delivering.
    pub(crate) bytes: usize,
}

/// Events with such an id end the process that delivers them.
pub(crate) fn is_poison(id: &EventId) -> bool {
    id.as_str().starts_with("poison")
}

#[async_trait]
impl Destination for SimDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let running = Running::start(self, batch);
        if self.outage.load(Ordering::Relaxed) {
            drop(running);
            return batch.iter().map(|delivery| self.unreachable_outcome(delivery)).collect();
        }
        if batch.iter().any(|delivery| is_poison(delivery.id())) {
            self.dying.store(true, Ordering::Relaxed);
        }
        if self.dying.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        // Longer than a lease: only renewals keep the event held.
        let slow = if self.chance.percent(4) { Plan::LEASE_DURATION * 3 } else { Duration::ZERO };
        tokio::time::sleep(slow + self.chance.millis(20)).await;
        if self.chance.percent(3) {
            self.journal_failures(batch);
            std::panic::panic_any(PANIC_MESSAGE);
        }
        let outcomes = batch.iter().map(|delivery| self.answer(delivery)).collect();
        drop(running);
        outcomes
    }

    fn profile(&self) -> Profile {
        if self.batch > 1 { Profile::publisher(self.batch) } else { Profile::HANDLER }
    }
}

impl SimDestination {
    fn unreachable_outcome(&self, delivery: &Delivery) -> Outcome {
        self.record(delivery.id(), |record| record.unreachable += 1);
        if self.chance.coin() { Outcome::no_connection("refused") } else { Outcome::no_answer("silence") }
    }

    fn answer(&self, delivery: &Delivery) -> Outcome {
        if !self.chance.percent_bad() {
            self.record(delivery.id(), |record| *record.done.entry(self.name).or_default() += 1);
            return Outcome::done();
        }
        match self.chance.below(6) {
            0 if !self.strict => Outcome::Defer(self.chance.millis(30_000)),
            1 => {
                self.record(delivery.id(), |record| record.dead = true);
                Outcome::Dead("never".to_owned())
            }
            2 => {
                self.record(delivery.id(), |record| record.failures += 1);
                Outcome::retry_after(self.chance.millis(20_000), "busy")
            }
            _ => {
                self.record(delivery.id(), |record| record.failures += 1);
                Outcome::retry("failed")
            }
        }
    }

    /// Records how many bytes the node is delivering. One event may exceed the bound (invariant 4).
    fn carries(&self, change: impl FnOnce(usize) -> usize) {
        let mut journal = self.journal.lock();
        let carried = journal.carried.entry((self.node, self.incarnation)).or_default();
        *carried = change(*carried);
        let carried = *carried;
        drop(journal);
        if carried > self.bytes + Plan::MAX_PAYLOAD_BYTES {
            self.journal.violation(format!("node {} delivers {carried} bytes at the same time", self.node));
        }
    }

    fn journal_failures(&self, batch: &[Delivery]) {
        for delivery in batch {
            self.record(delivery.id(), |record| record.failures += 1);
        }
    }

    fn record(&self, id: &EventId, note: impl FnOnce(&mut super::journal::DeliveryRecord)) {
        note(self.journal.lock().records.entry(id.clone()).or_default());
    }
}

/// Records which events run on a node, and whether one runs there twice (T1).
struct Running<'a> {
    destination: &'a SimDestination,
    ids: Vec<EventId>,
    bytes: usize,
}

impl<'a> Running<'a> {
    fn start(destination: &'a SimDestination, batch: &[Delivery]) -> Self {
        let ids: Vec<EventId> = batch.iter().map(|delivery| delivery.id().clone()).collect();
        let bytes = batch.iter().map(|delivery| delivery.payload().len()).sum();
        destination.carries(|carried| carried + bytes);
        let run = (destination.node, destination.incarnation, destination.name);
        for id in &ids {
            let (mut twice, mut first) = (false, false);
            destination.record(id, |record| {
                first = record.starts == 0;
                record.starts += 1;
                twice = !record.running.insert(run);
            });
            if first {
                destination.journal.lock().arrivals.push(id.clone());
            }
            if twice {
                destination.journal.violation(format!("{id} runs twice at the same time on node {run:?}"));
            }
        }
        Self { destination, ids, bytes }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let run = (self.destination.node, self.destination.incarnation, self.destination.name);
        self.destination.carries(|carried| carried - self.bytes);
        for id in &self.ids {
            self.destination.record(id, |record| {
                record.running.remove(&run);
            });
        }
    }
}
