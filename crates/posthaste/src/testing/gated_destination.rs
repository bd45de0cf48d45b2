//! A destination whose deliveries wait at a gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::destination::{Delivery, Destination, Outcome, Profile};

/// A gate at which tasks wait until it opens. Clones are the same gate.
///
/// A closed gate stops deliveries at a known point, so that a test can check the state in between.
#[derive(Clone, Debug)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    passes: Semaphore,
    entered: AtomicUsize,
    waiting: AtomicUsize,
    max_waiting: AtomicUsize,
}

impl Gate {
    /// A closed gate.
    pub fn closed() -> Self {
        Self(Arc::new(GateState {
            passes: Semaphore::new(0),
            entered: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            max_waiting: AtomicUsize::new(0),
        }))
    }

    /// Lets every task pass from now on.
    pub fn open(&self) {
        self.admit(Semaphore::MAX_PERMITS / 2);
    }

    /// Lets this many more tasks pass.
    pub fn admit(&self, tasks: usize) {
        self.0.passes.add_permits(tasks);
    }

    /// How many tasks have arrived so far.
    pub fn entered(&self) -> usize {
        self.0.entered.load(Ordering::SeqCst)
    }

    /// The most tasks that waited at the same time.
    pub fn max_inside(&self) -> usize {
        self.0.max_waiting.load(Ordering::SeqCst)
    }

    /// Waits until this task may pass.
    pub async fn pass(&self) {
        let _waiting = Waiting::begin(&self.0);
        // The semaphore is never closed, so this always returns a permit.
        if let Ok(permit) = self.0.passes.acquire().await {
            permit.forget();
        }
    }
}

/// A waiting task. Counted until it is dropped, even if it never passed.
struct Waiting<'a>(&'a GateState);

impl<'a> Waiting<'a> {
    fn begin(gate: &'a GateState) -> Self {
        gate.entered.fetch_add(1, Ordering::SeqCst);
        let waiting = gate.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        gate.max_waiting.fetch_max(waiting, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A destination whose calls wait at a [`Gate`] before another destination gets the events.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
/// use posthaste::testing::Gated;
/// use posthaste::{Event, MemoryStore, MemoryWriter, Outbox, Recorder, Route, Routes, Status};
///
/// let mail = Gated::new(Recorder::new());
/// let store = MemoryStore::new();
/// let routes = Routes::new().add(Route::event("UserCreated").deliver_to(mail.clone()));
/// let outbox = Outbox::builder(store.clone(), routes).start()?;
/// let event = Event::json("UserCreated", &serde_json::json!({ "name": "Ada" }))?;
/// let id = event.id().clone();
/// let mut tx = MemoryWriter::new(&store, &outbox).begin().await?;
/// tx.write(event).await?;
/// tx.commit().await?;
///
/// // The mail is under way, and not there yet.
/// while mail.gate.entered() == 0 {
///     tokio::task::yield_now().await;
/// }
/// assert_eq!(store.row(&id).map(|row| row.status), Some(Status::New));
///
/// mail.gate.open();
/// outbox.idle().await?;
/// assert_eq!(mail.inner.count(), 1);
/// # outbox.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gated<D> {
    /// The gate.
    pub gate: Gate,
    /// The destination behind the gate.
    pub inner: D,
}

impl<D: Destination> Gated<D> {
    /// Puts a closed gate in front of `destination`.
    pub fn new(destination: D) -> Self {
        Self { gate: Gate::closed(), inner: destination }
    }
}

#[async_trait]
impl<D: Destination> Destination for Gated<D> {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.gate.pass().await;
        self.inner.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}
