//! What the engine's tests share: a store with faults on call, and small words for common steps.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::memory::RawRow;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Settlement, Unpark,
    Verdict,
};
use posthaste::{
    Builder, Delivery, Event, EventId, EventRow, MemoryStore, Outbox, Outcome, Recorder, RetryPolicy, Routes,
    Status, Store, StoreError, Timestamp,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

pub const HOUR: Duration = Duration::from_secs(3600);

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A call of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Claim,
    Settle,
    Renew,
    Release,
    Park,
    Unpark,
    Purge,
    OldestPending,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error, and nothing is done.
    Fail,
    /// No answer, and nothing is done.
    Hang,
    /// Done after this long.
    Delay(Duration),
    /// Done at once, but the answer takes this long: whatever happens in between sees the effect.
    AnswerLate(Duration),
    /// Done, but the answer is an error.
    LoseAnswer,
    /// Done, but there is no answer.
    HangAfter,
    /// The store's own code panics before it does anything.
    Panic,
}

/// A [`MemoryStore`] whose calls fail when told to, and which counts them.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    pub memory: MemoryStore,
    switches: Arc<Switches>,
    wakes: bool,
    refused_text: Option<&'static str>,
    refused_id: Option<EventId>,
}

#[derive(Debug, Default)]
struct Switches {
    lasting: Mutex<HashMap<Call, Fault>>,
    next: Mutex<HashMap<Call, Vec<Fault>>>,
    counts: Mutex<HashMap<Call, usize>>,
    claims_with_room: AtomicUsize,
    settled: AtomicUsize,
    part_is_down: AtomicBool,
    /// Bytes in a second; zero is no limit.
    bandwidth: AtomicUsize,
}

impl FaultyStore {
    pub fn new() -> Self {
        Self {
            memory: MemoryStore::new(),
            switches: Arc::default(),
            wakes: true,
            refused_text: None,
            refused_id: None,
        }
    }

    /// Another store on the same rows, with faults and counts of its own.
    pub fn on(memory: &MemoryStore) -> Self {
        Self {
            memory: memory.clone(),
            switches: Arc::default(),
            wakes: true,
            refused_text: None,
            refused_id: None,
        }
    }

    /// The same, but it gives no hints: pollers have to look.
    pub fn without_wake(mut self) -> Self {
        self.wakes = false;
        self
    }

    /// The same, but it settles nothing together with an error that contains this text, as a
    /// database does that cannot keep every character.
    pub fn refusing(mut self, text: &'static str) -> Self {
        self.refused_text = Some(text);
        self
    }

    /// The same, but it never settles this event, whatever its outcome, as a database does whose
    /// constraint forbids it.
    pub fn refusing_event(mut self, id: &EventId) -> Self {
        self.refused_id = Some(id.clone());
        self
    }

    /// From now on claims take their time: so many bytes are read in a second.
    pub fn set_bandwidth(&self, bytes_per_second: usize) {
        self.switches.bandwidth.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Whether the server that has every other row is down, as far as outcomes are concerned.
    pub fn set_part_down(&self, is_down: bool) {
        self.switches.part_is_down.store(is_down, Ordering::Relaxed);
    }

    /// From now on every such call has this fault.
    pub fn break_call(&self, call: Call, fault: Fault) {
        locked(&self.switches.lasting).insert(call, fault);
    }

    /// From now on such calls work again.
    pub fn fix(&self, call: Call) {
        locked(&self.switches.lasting).remove(&call);
    }

    pub fn break_all(&self, fault: Fault) {
        for call in EVERY_CALL {
            self.break_call(call, fault);
        }
    }

    pub fn fix_all(&self) {
        EVERY_CALL.into_iter().for_each(|call| self.fix(call));
    }

    /// The next such call, and only that, has this fault.
    pub fn break_next(&self, call: Call, fault: Fault) {
        locked(&self.switches.next).entry(call).or_default().push(fault);
    }

    pub fn count(&self, call: Call) -> usize {
        locked(&self.switches.counts).get(&call).copied().unwrap_or(0)
    }

    /// Claims that asked for at least one row.
    pub fn claims_with_room(&self) -> usize {
        self.switches.claims_with_room.load(Ordering::Relaxed)
    }

    /// Settlements in all settle calls.
    pub fn settlements(&self) -> usize {
        self.switches.settled.load(Ordering::Relaxed)
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        *locked(&self.switches.counts).entry(call).or_default() += 1;
        let once = locked(&self.switches.next)
            .get_mut(&call)
            .and_then(|faults| (!faults.is_empty()).then(|| faults.remove(0)));
        once.or_else(|| locked(&self.switches.lasting).get(&call).copied())
    }

    async fn with_fault<T>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.fault(call) {
            None => work.await,
            Some(Fault::Fail) => Err(broken()),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Delay(delay)) => {
                sleep(delay).await;
                work.await
            }
            Some(Fault::AnswerLate(delay)) => {
                let answer = work.await;
                sleep(delay).await;
                answer
            }
            Some(Fault::LoseAnswer) => work.await.and(Err(broken())),
            Some(Fault::HangAfter) => {
                let _ = work.await;
                std::future::pending().await
            }
            // As a panic, but without a word on the terminal.
            Some(Fault::Panic) => std::panic::resume_unwind(Box::new("the store's own bug")),
        }
    }
}

const EVERY_CALL: [Call; 8] = [
    Call::Claim,
    Call::Settle,
    Call::Renew,
    Call::Release,
    Call::Park,
    Call::Unpark,
    Call::Purge,
    Call::OldestPending,
];

fn broken() -> StoreError {
    StoreError::backend("faulty", "the connection broke")
}

fn error_of(settlement: &Settlement) -> &str {
    match &settlement.verdict {
        Verdict::Failed { error, .. } | Verdict::Unreachable { error, .. } => error,
        Verdict::Dead { reason } => reason,
        _ => "",
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Store for FaultyStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        if claim.limit > 0 {
            self.switches.claims_with_room.fetch_add(1, Ordering::Relaxed);
        }
        let claimed = self.with_fault(Call::Claim, self.memory.claim(claim)).await?;
        let bandwidth = self.switches.bandwidth.load(Ordering::Relaxed);
        if bandwidth > 0 {
            let bytes: usize = claimed.events.iter().map(|leased| leased.event.payload().len()).sum();
            sleep(Duration::from_secs_f64(bytes as f64 / bandwidth as f64)).await;
        }
        Ok(claimed)
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        self.switches.settled.fetch_add(settle.settlements.len(), Ordering::Relaxed);
        let refused = |settlement: &Settlement| {
            self.refused_text.is_some_and(|text| error_of(settlement).contains(text))
                || self.refused_id.as_ref() == Some(&settlement.lease.id)
        };
        if settle.settlements.iter().any(refused) {
            return Err(StoreError::backend("faulty", "a character that it cannot keep"));
        }
        if !self.switches.part_is_down.load(Ordering::Relaxed) {
            return self.with_fault(Call::Settle, self.memory.settle(settle)).await;
        }
        let is_down = |settlement: &&Settlement| settlement.lease.seq % 2 == 1;
        let up: Vec<Settlement> = settle.settlements.iter().filter(|one| !is_down(one)).cloned().collect();
        let settle_up = Settle::new(settle.owner, &up).with_on_done(settle.on_done).at(settle.now);
        let mut known = self.with_fault(Call::Settle, self.memory.settle(&settle_up)).await?.into_iter();
        let answer = |one| if is_down(&one) { None } else { known.next() };
        Ok(settle.settlements.iter().map(answer).map(|one| one.unwrap_or(Settled::Unknown)).collect())
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.with_fault(Call::Renew, self.memory.renew(renew)).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Release, self.memory.release(release)).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Park, self.memory.park(park)).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Unpark, self.memory.unpark(unpark)).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.with_fault(Call::Purge, self.memory.purge_batch(purge)).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.with_fault(Call::OldestPending, self.memory.oldest_pending(now)).await
    }

    fn wake(&self) -> Option<Notifier> {
        if self.wakes { self.memory.wake() } else { None }
    }
}

/// An outbox with the only engine on this store, to be configured.
pub fn single_node(store: &(impl Store + Clone), routes: Routes) -> Builder {
    Outbox::builder(store.clone(), routes).single_node()
}

pub fn event(event_type: &str) -> Event {
    Event::json(event_type, &serde_json::json!({})).expect("a good event")
}

pub fn events(event_type: &str, count: usize) -> Vec<Event> {
    (0..count).map(|_| event(event_type)).collect()
}

pub fn ids_of(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id().clone()).collect()
}

/// Writes events in one transaction, through the outbox, and commits.
pub async fn commit(store: &MemoryStore, outbox: &Outbox, events: Vec<Event>) -> Vec<EventId> {
    let mut tx = store.writer(outbox).begin().await.expect("begin");
    let ids = tx.write_all(events).await.expect("write");
    tx.commit().await.expect("commit");
    ids
}

pub async fn commit_one(store: &MemoryStore, outbox: &Outbox, event_type: &str) -> EventId {
    commit(store, outbox, vec![event(event_type)]).await.remove(0)
}

/// Inserts due rows as a foreign program would: nobody is told.
pub fn insert_foreign(store: &MemoryStore, event_type: &str, count: usize) -> Vec<EventId> {
    let insert = |_| {
        let raw = RawRow { event_type: event_type.to_owned(), ..RawRow::default() };
        let id = raw.id.clone();
        store.insert_raw(raw).expect("a new id");
        id
    };
    (0..count).map(insert).collect()
}

pub fn row(store: &MemoryStore, id: &EventId) -> EventRow {
    let found = store.rows().into_iter().find(|row| row.id == *id);
    found.unwrap_or_else(|| panic!("no row for {id}"))
}

pub fn status(store: &MemoryStore, id: &EventId) -> Status {
    row(store, id).status
}

pub fn count_in(store: &MemoryStore, status: Status) -> usize {
    store.rows().iter().filter(|row| row.status == status).count()
}

/// Every one of these events was delivered, each once, and nothing else was.
#[track_caller]
pub fn assert_each_once(recorder: &Recorder, ids: &[EventId]) {
    assert_same_ids(recorder.ids(), ids.to_vec());
}

#[track_caller]
pub fn assert_same_ids(mut left: Vec<EventId>, mut right: Vec<EventId>) {
    left.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    right.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let repeats = left.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!((left.len(), repeats), (right.len(), 0), "deliveries and repeats among them");
    assert!(left == right, "the ids differ");
}

/// Looks every millisecond of paused time, until it is so.
#[track_caller]
pub fn eventually(within: Duration, is_so: impl Fn() -> bool) -> impl Future<Output = Duration> {
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() <= within, "not within {within:?}: {caller}");
            sleep(millis(1)).await;
        }
        started.elapsed()
    }
}

/// No jitter, so that the times are known: 100 ms, 200 ms, 400 ms…
pub fn plain_retry(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::default().with_max_attempts(max_attempts).with_base_delay(millis(100)).without_jitter()
}

/// A handler's gate: deliveries wait in front of it until it opens.
#[derive(Clone, Debug)]
pub struct Gate {
    semaphore: Arc<Semaphore>,
    entered: Arc<AtomicUsize>,
    max_inside: Arc<AtomicUsize>,
    inside: Arc<AtomicUsize>,
}

impl Gate {
    pub fn closed() -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(0)),
            entered: Arc::default(),
            max_inside: Arc::default(),
            inside: Arc::default(),
        }
    }

    pub fn open(&self) {
        self.semaphore.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Lets so many pass.
    pub fn admit(&self, n: usize) {
        self.semaphore.add_permits(n);
    }

    /// How many came to it so far.
    pub fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    /// The most that stood in front of it at once.
    pub fn max_inside(&self) -> usize {
        self.max_inside.load(Ordering::SeqCst)
    }

    pub async fn pass(&self) {
        let _inside = Inside::enter(self);
        self.semaphore.acquire().await.expect("never closed").forget();
    }
}

struct Inside<'a>(&'a Gate);

impl<'a> Inside<'a> {
    fn enter(gate: &'a Gate) -> Self {
        gate.entered.fetch_add(1, Ordering::SeqCst);
        let inside = gate.inside.fetch_add(1, Ordering::SeqCst) + 1;
        gate.max_inside.fetch_max(inside, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A destination that waits at a gate and then answers as its recorder does.
#[derive(Clone, Debug)]
pub struct GatedDestination {
    pub gate: Gate,
    pub recorder: Recorder,
}

impl GatedDestination {
    pub fn new() -> Self {
        Self::with(Recorder::new())
    }

    pub fn with(recorder: Recorder) -> Self {
        Self { gate: Gate::closed(), recorder }
    }
}

#[async_trait]
impl posthaste::Destination for GatedDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.gate.pass().await;
        self.recorder.deliver(batch).await
    }

    fn profile(&self) -> posthaste::Profile {
        self.recorder.profile()
    }
}

/// A destination that takes this long, and then answers as its recorder does.
#[derive(Clone, Debug)]
pub struct SlowDestination {
    pub takes: Duration,
    pub recorder: Recorder,
}

#[async_trait]
impl posthaste::Destination for SlowDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        sleep(self.takes).await;
        self.recorder.deliver(batch).await
    }

    fn profile(&self) -> posthaste::Profile {
        self.recorder.profile()
    }
}
