//! The world of one seed: a store, destinations, and nodes that crash and come back.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use posthaste::config::QueueConfig;
use posthaste::{Event, MemoryStore, Outbox, RetryPolicy, Route, Routes, Status, WriterHook};

use super::destination::SimDestination;
use super::faults::{FaultChance, SimStore};
use super::journal::Journal;
use super::plan::Plan;

/// Route `a` has one destination, route `b` fans out to two.
pub(crate) const TYPES: [&str; 2] = ["a", "b"];

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) journal: Journal,
    nodes: RefCell<Vec<Outbox>>,
    incarnations: AtomicU32,
    deliveries: FaultChance,
    calls: FaultChance,
    /// Whether route `a` is unreachable, per node.
    outages: Vec<Arc<AtomicBool>>,
    /// Whether the process of each node has ended by itself.
    dying: RefCell<Vec<Arc<AtomicBool>>>,
    workers: usize,
    queue: QueueConfig,
    batch: usize,
    max_attempts: u32,
    strict: bool,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let world = Self {
            store: MemoryStore::new(),
            journal: Journal::default(),
            nodes: RefCell::default(),
            incarnations: AtomicU32::new(0),
            deliveries: FaultChance::new(fastrand::u64(..), plan.calm, plan.bad_deliveries),
            calls: FaultChance::new(fastrand::u64(..), plan.calm, plan.bad_calls),
            outages: (0..plan.nodes).map(|_| Arc::default()).collect(),
            dying: RefCell::new(vec![Arc::default(); plan.nodes]),
            workers: plan.workers,
            queue: QueueConfig::default().with_hot(plan.hot).with_cold(plan.cold).with_bytes(plan.bytes),
            batch: plan.batch,
            max_attempts: plan.max_attempts,
            strict: plan.strict,
        };
        for node in 0..plan.nodes {
            let outbox = world.start_node(node);
            world.nodes.borrow_mut().push(outbox);
        }
        world
    }

    /// A clone of a node, to write through.
    pub(crate) fn node(&self, node: usize) -> Outbox {
        self.nodes.borrow()[node].clone()
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// Kills a node: its tasks end immediately and its memory is lost. Another one starts in its place.
    pub(crate) fn crash(&self, node: usize) {
        let replacement = self.start_node(node);
        let dead = std::mem::replace(&mut self.nodes.borrow_mut()[node], replacement);
        dead.abort();
    }

    /// Acts as a supervisor: starts another node in the place of each that has ended by itself.
    pub(crate) fn supervise(&self) {
        for node in 0..self.node_count() {
            if self.dying.borrow()[node].load(Ordering::Relaxed) {
                self.crash(node);
            }
        }
    }

    /// Makes route `a` unreachable from one node, or from all.
    pub(crate) fn begin_outage(&self, node: Option<usize>) {
        for (number, outage) in self.outages.iter().enumerate() {
            if node.is_none_or(|node| node == number) {
                outage.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn end_outages(&self) {
        self.outages.iter().for_each(|outage| outage.store(false, Ordering::Relaxed));
    }

    /// The store loses its last rows, as after a failover to a standby that was behind, and assigns their numbers
    /// again.
    pub(crate) fn lose_tail(&self, rows: usize) {
        let all = self.store.rows();
        let tail = &all[all.len().saturating_sub(rows)..];
        let Some(first) = tail.first() else { return };
        self.store.lose_from(first.seq);
        let ids: Vec<_> = tail.iter().map(|row| row.id.clone()).collect();
        self.journal.lost(&ids);
    }

    /// Shuts a node down and starts another in its place.
    pub(crate) async fn restart(&self, node: usize) {
        let outbox = self.node(node);
        outbox.shutdown().await;
        let replacement = self.start_node(node);
        self.nodes.borrow_mut()[node] = replacement;
    }

    /// Ends all faults. Where there are two nodes, one of them may never reach route `a` again; the other one delivers
    /// its events.
    pub(crate) async fn heal(&self, one_stays_cut_off: bool) {
        self.deliveries.heal();
        self.calls.heal();
        self.end_outages();
        if one_stays_cut_off && self.node_count() > 1 {
            self.begin_outage(Some(0));
        }
        use posthaste::Admin as _;
        for route in self.store.stats().await.unwrap().paused {
            self.store.resume(&route, "simulation").await.unwrap();
        }
    }

    /// Waits until no row is pending.
    pub(crate) async fn settled(&self) {
        while self.store.rows().iter().any(|row| row.status.is_pending()) {
            self.supervise();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn start_node(&self, node: usize) -> Outbox {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        let dying = Arc::new(AtomicBool::new(false));
        self.dying.borrow_mut()[node] = Arc::clone(&dying);
        let destination = |name, batch| SimDestination {
            name,
            node,
            incarnation,
            batch,
            strict: self.strict,
            journal: self.journal.clone(),
            chance: self.deliveries.clone(),
            outage: if name == "a" { Arc::clone(&self.outages[node]) } else { Arc::default() },
            dying: Arc::clone(&dying),
            bytes: self.queue.bytes,
        };
        let routes =
            Routes::new().add(Route::event("a").deliver_to(destination("a", self.batch)).name("a")).add(
                Route::event("b")
                    .fan_out_to("one", destination("one", 1))
                    .fan_out_to("two", destination("two", 1))
                    .name("b"),
            );
        let store =
            SimStore { inner: self.store.clone(), chance: self.calls.clone(), dying: Arc::clone(&dying) };
        if self.strict {
            return Outbox::builder(store, routes)
                .strict()
                .poll_interval(Duration::from_secs(2))
                .poll_batch(self.batch)
                .hook(JournalHook(self.journal.clone()))
                .start()
                .unwrap();
        }
        Outbox::builder(store, routes)
            .lease(Plan::LEASE_DURATION)
            .hot_lease(Plan::HOT_LEASE_DURATION)
            .workers(self.workers)
            .queue(self.queue.clone())
            .payload_bytes(Plan::MAX_PAYLOAD_BYTES)
            .poll_interval(Duration::from_secs(2))
            .poll_batch(self.batch)
            .retry(RetryPolicy::default().with_max_attempts(self.max_attempts))
            .hook(JournalHook(self.journal.clone()))
            .start()
            .unwrap()
    }
}

/// Each event gets exactly one of `after_commit` and `after_rollback`, or neither.
struct JournalHook(Journal);

impl WriterHook for JournalHook {
    fn after_commit(&self, events: &[Event]) {
        let mut journal = self.0.lock();
        for event in events {
            *journal.hooks.after_commit.entry(event.id().clone()).or_default() += 1;
        }
    }

    fn after_rollback(&self, events: &[Event]) {
        let mut journal = self.0.lock();
        for event in events {
            *journal.hooks.after_rollback.entry(event.id().clone()).or_default() += 1;
        }
    }
}

impl World {
    /// The number of DEAD rows.
    pub(crate) fn dead(&self) -> usize {
        self.store.rows().iter().filter(|row| row.status == Status::Dead).count()
    }
}
