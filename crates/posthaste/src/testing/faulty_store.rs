//! A store whose calls fail on demand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use crate::error::StoreError;
use crate::event::EventId;
use crate::memory::MemoryStore;
use crate::mutex::lock;
use crate::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Settlement, Store, Unpark,
    Verdict,
};
use crate::time::Timestamp;

/// A call of a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::claim`].
    Claim,
    /// [`Store::settle`].
    Settle,
    /// [`Store::renew`].
    Renew,
    /// [`Store::release`].
    Release,
    /// [`Store::park`].
    Park,
    /// [`Store::unpark`].
    Unpark,
    /// [`Store::purge_batch`].
    Purge,
    /// [`Store::oldest_pending`].
    OldestPending,
}

impl Call {
    const ALL: [Self; 8] = [
        Self::Claim,
        Self::Settle,
        Self::Renew,
        Self::Release,
        Self::Park,
        Self::Unpark,
        Self::Purge,
        Self::OldestPending,
    ];
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An error, and nothing is done.
    Fail,
    /// Nothing is done, and the call never returns.
    Hang,
    /// Done after this delay.
    Delay(Duration),
    /// Done immediately, but the call returns after this delay. Calls in between see the effect.
    AnswerLate(Duration),
    /// Done, but the call returns an error.
    LoseAnswer,
    /// Done, but the call never returns.
    HangAfter,
    /// The store's own code panics before it does anything.
    Panic,
}

/// A store whose calls fail on demand. It counts its calls. Clones are the same store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
/// use posthaste::testing::{Call, Fault, FaultyStore};
/// use posthaste::{Outbox, Routes};
///
/// let store = FaultyStore::new();
/// let outbox = Outbox::builder(store.clone(), Routes::new()).start()?;
/// store.break_next(Call::Claim, Fault::Fail);
/// assert!(outbox.poll_once().await.is_err());
/// assert!(outbox.poll_once().await.is_ok());
/// # outbox.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FaultyStore<S = MemoryStore> {
    /// The wrapped store, which does not fail.
    pub inner: S,
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
    /// Bytes per second of claims; zero means unlimited.
    bandwidth: AtomicUsize,
}

impl FaultyStore {
    /// Wraps a new [`MemoryStore`].
    pub fn new() -> Self {
        Self::on(&MemoryStore::new())
    }
}

impl Default for FaultyStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Store + Clone> FaultyStore<S> {
    /// Wraps this store, with faults and counts of its own.
    pub fn on(store: &S) -> Self {
        Self {
            inner: store.clone(),
            switches: Arc::default(),
            wakes: true,
            refused_text: None,
            refused_id: None,
        }
    }
}

impl<S> FaultyStore<S> {
    /// The same without a notifier, so that pollers depend on their interval.
    #[must_use]
    pub fn without_wake(mut self) -> Self {
        self.wakes = false;
        self
    }

    /// The same, but it refuses every settlement whose error contains this text, together with all others of the call,
    /// as a database does that cannot store every character.
    #[must_use]
    pub fn refusing(mut self, text: &'static str) -> Self {
        self.refused_text = Some(text);
        self
    }

    /// The same, but it never settles this event, whatever its outcome, as a database does whose constraint forbids it.
    #[must_use]
    pub fn refusing_event(mut self, id: &EventId) -> Self {
        self.refused_id = Some(id.clone());
        self
    }

    /// From now on claims read only this many bytes per second.
    pub fn set_bandwidth(&self, bytes_per_second: usize) {
        self.switches.bandwidth.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Sets whether the server with every other row is down. Affects settlements only.
    pub fn set_part_down(&self, is_down: bool) {
        self.switches.part_is_down.store(is_down, Ordering::Relaxed);
    }

    /// From now on every such call has this fault.
    pub fn break_call(&self, call: Call, fault: Fault) {
        lock(&self.switches.lasting).insert(call, fault);
    }

    /// From now on such calls work again.
    pub fn fix(&self, call: Call) {
        lock(&self.switches.lasting).remove(&call);
    }

    /// From now on every call has this fault.
    pub fn break_all(&self, fault: Fault) {
        for call in Call::ALL {
            self.break_call(call, fault);
        }
    }

    /// From now on every call works again.
    pub fn fix_all(&self) {
        Call::ALL.into_iter().for_each(|call| self.fix(call));
    }

    /// The next such call has this fault, and only that one.
    pub fn break_next(&self, call: Call, fault: Fault) {
        lock(&self.switches.next).entry(call).or_default().push(fault);
    }

    /// The number of such calls.
    pub fn count(&self, call: Call) -> usize {
        lock(&self.switches.counts).get(&call).copied().unwrap_or(0)
    }

    /// The number of claims with a limit above zero.
    pub fn claims_with_room(&self) -> usize {
        self.switches.claims_with_room.load(Ordering::Relaxed)
    }

    /// The number of settlements in all settle calls.
    pub fn settlements(&self) -> usize {
        self.switches.settled.load(Ordering::Relaxed)
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        *lock(&self.switches.counts).entry(call).or_default() += 1;
        let once = lock(&self.switches.next)
            .get_mut(&call)
            .and_then(|faults| (!faults.is_empty()).then(|| faults.remove(0)));
        once.or_else(|| lock(&self.switches.lasting).get(&call).copied())
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
            // Like a panic, but prints nothing.
            Some(Fault::Panic) => std::panic::resume_unwind(Box::new("the store's own bug")),
        }
    }
}

fn broken() -> StoreError {
    StoreError::backend("faulty", "the connection broke")
}

fn error_of(settlement: &Settlement) -> &str {
    match &settlement.verdict {
        Verdict::Failed { error, .. } | Verdict::Unreachable { error, .. } => error,
        Verdict::Dead { reason } => reason,
        Verdict::Done | Verdict::Deferred { .. } => "",
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for FaultyStore<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        if claim.limit > 0 {
            self.switches.claims_with_room.fetch_add(1, Ordering::Relaxed);
        }
        let claimed = self.with_fault(Call::Claim, self.inner.claim(claim)).await?;
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
            return self.with_fault(Call::Settle, self.inner.settle(settle)).await;
        }
        let is_down = |settlement: &&Settlement| settlement.lease.seq % 2 == 1;
        let up: Vec<Settlement> = settle.settlements.iter().filter(|one| !is_down(one)).cloned().collect();
        let settle_up = Settle::new(settle.owner, &up).with_on_done(settle.on_done).at(settle.now);
        let mut known = self.with_fault(Call::Settle, self.inner.settle(&settle_up)).await?.into_iter();
        let answer = |one| if is_down(&one) { None } else { known.next() };
        Ok(settle.settlements.iter().map(answer).map(|one| one.unwrap_or(Settled::Unknown)).collect())
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.with_fault(Call::Renew, self.inner.renew(renew)).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Release, self.inner.release(release)).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Park, self.inner.park(park)).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        self.with_fault(Call::Unpark, self.inner.unpark(unpark)).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.with_fault(Call::Purge, self.inner.purge_batch(purge)).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.with_fault(Call::OldestPending, self.inner.oldest_pending(now)).await
    }

    fn wake(&self) -> Option<Notifier> {
        if self.wakes { self.inner.wake() } else { None }
    }
}
