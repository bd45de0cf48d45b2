//! A destination for tests that records its deliveries.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::destination::{Delivery, Destination, Outcome, Profile};
use crate::event::EventId;
use crate::mutex::lock;

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Records every delivery and returns a configurable outcome. Clones share the record.
///
/// For tests: the record has no bound.
///
/// ```
/// use posthaste::{Outcome, Recorder};
///
/// let fails_once = Recorder::with(|delivery| match delivery.attempt {
///     1 => Outcome::retry("not today"),
///     _ => Outcome::done(),
/// });
/// assert!(fails_once.deliveries().is_empty());
/// ```
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
    profile: Profile,
}

struct Inner {
    seen: Mutex<Vec<Delivery>>,
    arrived: Notify,
    answer: Box<dyn Fn(&Delivery) -> Outcome + Send + Sync>,
}

impl Recorder {
    /// Accepts every event.
    pub fn new() -> Self {
        Self::with(|_| Outcome::done())
    }

    /// Returns for each delivery the outcome that `answer` returns.
    pub fn with(answer: impl Fn(&Delivery) -> Outcome + Send + Sync + 'static) -> Self {
        let inner = Inner { seen: Mutex::default(), arrived: Notify::new(), answer: Box::new(answer) };
        Self { inner: Arc::new(inner), profile: Profile::HANDLER }
    }

    /// Accepts up to `batch` events per call, as a publisher does, instead of one.
    #[must_use]
    pub fn publisher(mut self, batch: usize) -> Self {
        self.profile = Profile::publisher(batch);
        self
    }

    /// Everything delivered so far, in order.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.seen().clone()
    }

    /// The ids of everything delivered so far, in order, repeats included.
    pub fn ids(&self) -> Vec<EventId> {
        self.seen().iter().map(|delivery| delivery.id().clone()).collect()
    }

    /// How many deliveries there were so far, repeats included.
    pub fn count(&self) -> usize {
        self.seen().len()
    }

    /// How often this event has been delivered so far.
    pub fn count_of(&self, id: &EventId) -> usize {
        self.seen().iter().filter(|delivery| delivery.id() == id).count()
    }

    /// Waits until there have been at least `n` deliveries, repeats included.
    ///
    /// # Panics
    ///
    /// Panics if they have not arrived within a minute of Tokio's clock, so that a test fails instead of hanging.
    pub async fn wait_for(&self, n: usize) {
        let came = tokio::time::timeout(WAIT_TIMEOUT, self.have_come(n)).await;
        assert!(came.is_ok(), "{} of {n} deliveries came within {WAIT_TIMEOUT:?}", self.count());
    }

    async fn have_come(&self, n: usize) {
        loop {
            let mut arrived = std::pin::pin!(self.inner.arrived.notified());
            // Registered before the count is read, so that no delivery in between is missed.
            arrived.as_mut().enable();
            if self.count() >= n {
                return;
            }
            arrived.await;
        }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Delivery>> {
        lock(&self.inner.seen)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Destination for Recorder {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.seen().extend(batch.iter().cloned());
        self.inner.arrived.notify_waiters();
        batch.iter().map(|delivery| (self.inner.answer)(delivery)).collect()
    }

    fn profile(&self) -> Profile {
        self.profile
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("count", &self.count()).finish_non_exhaustive()
    }
}
