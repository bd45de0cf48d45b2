//! A store whose calls fail, hang, or whose replies are late or lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Store, Unpark,
};
use posthaste::{MemoryStore, StoreError, Timestamp};

/// Random choices of faults, until everything heals.
#[derive(Clone, Debug)]
pub(crate) struct FaultChance {
    rng: Arc<Mutex<Rng>>,
    healed: Arc<AtomicBool>,
    calm: bool,
    bad: Arc<AtomicU32>,
}

impl FaultChance {
    pub(crate) fn new(seed: u64, calm: bool, bad: u32) -> Self {
        Self {
            rng: Arc::new(Mutex::new(Rng::with_seed(seed))),
            healed: Arc::default(),
            calm,
            bad: Arc::new(AtomicU32::new(bad)),
        }
    }

    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// Whether a fault with this rate, in percent, happens now.
    pub(crate) fn percent(&self, percent: u32) -> bool {
        !self.calm
            && !self.healed.load(Ordering::Relaxed)
            && self.bad.load(Ordering::Relaxed) > 0
            && self.below(100) < percent
    }

    /// The same with the rate of the plan.
    pub(crate) fn percent_bad(&self) -> bool {
        self.percent(self.bad.load(Ordering::Relaxed))
    }

    pub(crate) fn below(&self, limit: u32) -> u32 {
        self.rng.lock().unwrap().u32(0..limit)
    }

    pub(crate) fn coin(&self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn millis(&self, most: u32) -> Duration {
        Duration::from_millis(self.below(most + 1).into())
    }
}

/// How a call goes wrong.
enum Fault {
    None,
    /// Fails before it had an effect.
    Fails,
    /// Takes effect, but the reply is lost.
    LosesAnswer,
    /// Takes effect later.
    Late(Duration),
    /// Takes effect immediately, but the reply comes after the caller has given up.
    AnswersLate,
}

#[derive(Clone, Debug)]
pub(crate) struct SimStore {
    pub(crate) inner: MemoryStore,
    pub(crate) chance: FaultChance,
    /// The process of this connection has ended.
    pub(crate) dying: Arc<AtomicBool>,
}

impl SimStore {
    fn fault(&self) -> Fault {
        if !self.chance.percent_bad() {
            return Fault::None;
        }
        match self.chance.below(5) {
            0 => Fault::Fails,
            1 => Fault::LosesAnswer,
            2 => Fault::Late(self.chance.millis(2_000)),
            3 => Fault::AnswersLate,
            // Longer than the engine's timeout.
            _ => Fault::Late(Duration::from_secs(20)),
        }
    }

    async fn with_fault<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let broken = || StoreError::backend("simulated", "the connection broke");
        if self.dying.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        match self.fault() {
            Fault::None => call.await,
            Fault::Fails => Err(broken()),
            Fault::LosesAnswer => {
                call.await?;
                Err(broken())
            }
            Fault::Late(delay) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Fault::AnswersLate => {
                let answer = call.await;
                tokio::time::sleep(Duration::from_secs(20)).await;
                answer
            }
        }
    }
}

#[async_trait]
impl Store for SimStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.with_fault(self.inner.claim(claim)).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let mut settled = self.with_fault(self.inner.settle(settle)).await?;
        // One of several servers is down, or its reply was lost.
        if self.chance.percent_bad() {
            settled.iter_mut().filter(|_| self.chance.below(2) == 0).for_each(|one| *one = Settled::Unknown);
        }
        Ok(settled)
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        self.with_fault(self.inner.renew(renew)).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        self.with_fault(self.inner.release(release)).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        self.with_fault(self.inner.park(park)).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        self.with_fault(self.inner.unpark(unpark)).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.with_fault(self.inner.purge_batch(purge)).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.with_fault(self.inner.oldest_pending(now)).await
    }

    fn wake(&self) -> Option<Notifier> {
        // Hints are optional: the poller alone must be enough.
        None
    }
}
