//! The outbox: starts and stops the engine.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::config::{Config, ConfigError, Mode, Problem, Settings};
pub use crate::engine::ShutdownReport;
use crate::engine::{Engine, EngineState, HotPath, Proof};
use crate::error::StoreError;
use crate::event::Limits;
use crate::interceptor::Interceptor;
use crate::mutex::lock;
use crate::route::{RouteTable, Routes};
use crate::store::Store;
use crate::writer::{Receipt, WriterCore};
use crate::writer_hook::WriterHook;

/// An outbox on one store. Cheap to clone; all clones are the same outbox.
///
/// Dropping the last clone stops the engine immediately, which is safe. [`shutdown`](Self::shutdown) is better: it
/// finishes what is under way, so that nothing has to be delivered twice.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
/// use posthaste::{Delivery, Event, MemoryStore, MemoryWriter, Outbox, Routes};
///
/// let store = MemoryStore::new();
/// let routes = Routes::new().handle("UserCreated", async |event: Delivery| {
///     println!("welcome, {}", event.id());
/// });
/// let outbox = Outbox::builder(store.clone(), routes).start()?;
///
/// let mut tx = MemoryWriter::new(&store, &outbox).begin().await?;
/// tx.write(Event::json("UserCreated", &serde_json::json!({ "name": "Ada" }))?).await?;
/// tx.commit().await?;
///
/// outbox.idle().await?;
/// outbox.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    hot_path: HotPath,
    hooks: Vec<Arc<dyn WriterHook>>,
    limits: Limits,
    mode: Mode,
    state: Mutex<State>,
}

enum State {
    Built(Box<EngineParts>),
    Running(Engine, Arc<EngineState>),
    Stopped,
}

struct EngineParts {
    settings: Settings,
    store: Arc<dyn Store>,
    routes: RouteTable,
    interceptors: Vec<Arc<dyn Interceptor>>,
}

/// The engine cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration or the routes are wrong; the error lists every problem.
    #[error("{0}")]
    Config(#[from] ConfigError),

    /// The outbox has already been shut down.
    #[error("this outbox was shut down: build a new one")]
    ShutDown,

    /// `start` was called outside a Tokio runtime.
    #[error("no Tokio runtime is running here: call `start` from async code")]
    NoRuntime,
}

impl Outbox {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        config: &Config,
        routes: Routes,
        hooks: Vec<Arc<dyn WriterHook>>,
        interceptors: Vec<Arc<dyn Interceptor>>,
    ) -> Result<Outbox, ConfigError> {
        let mut problems = routes.check(config).err().map_or_else(Vec::new, |error| error.problems);
        if config.mode == Mode::WriterOnly && !interceptors.is_empty() {
            problems.push(Problem::new("mode", "writer_only dispatches nothing: leave out interceptors"));
        }
        ConfigError::from_problems(problems)?;
        let routes = routes.into_table();
        let parts = EngineParts { settings: Settings::resolve(config), store, routes, interceptors };
        Ok(Outbox(Arc::new(Inner {
            hot_path: HotPath::default(),
            hooks,
            limits: Limits { payload_bytes: config.payload_bytes },
            mode: config.mode,
            state: Mutex::new(State::Built(Box::new(parts))),
        })))
    }

    /// Starts the engine. Calling it again has no effect; after a shutdown it is an error.
    pub fn start(&self) -> Result<(), StartError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StartError::NoRuntime);
        }
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Stopped => return Err(StartError::ShutDown),
            running @ State::Running(..) => *state = running,
            State::Built(parts) => {
                let EngineParts { settings, store, routes, interceptors } = *parts;
                let engine = Arc::new(EngineState::new(settings, store, routes, interceptors));
                self.0.hot_path.connect(Arc::clone(&engine));
                *state = State::Running(Engine::start(Arc::clone(&engine)), engine);
            }
        }
        Ok(())
    }

    /// Stops the engine. Queued and running events are finished within the drain limit; the rest is released to the
    /// store. Calling it again has no effect. If the future is dropped, the shutdown continues.
    pub async fn shutdown(&self) -> ShutdownReport {
        match self.take_engine() {
            Some(engine) => tokio::spawn(engine.shutdown()).await.unwrap_or_default(),
            None => ShutdownReport::default(),
        }
    }

    /// Stops this outbox in favour of another one on the same store, with other routes or settings. Unlike
    /// [`shutdown`](Self::shutdown), it finishes only deliveries that have begun, within the drain limit. Queued events
    /// are released to the store immediately, so that the other outbox can claim them.
    ///
    /// Start the other outbox first, so that no event has to wait. In strict mode retire this one first, or events
    /// overtake each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
    /// use posthaste::{Config, Delivery, MemoryStore, Outbox, Routes};
    ///
    /// let store = MemoryStore::new();
    /// let routes = || Routes::new().handle("UserCreated", async |_: Delivery| ());
    /// let old = Outbox::from_config(store.clone(), Config::relay(), routes()).start()?;
    ///
    /// let mut changed = Config::relay();
    /// changed.workers = Some(8);
    /// let new = Outbox::from_config(store, changed, routes()).start()?;
    /// old.retire().await;
    /// # new.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn retire(&self) -> ShutdownReport {
        match self.take_engine() {
            Some(engine) => tokio::spawn(engine.retire()).await.unwrap_or_default(),
            None => ShutdownReport::default(),
        }
    }

    /// Takes the engine out of this outbox, so that only one caller stops it.
    fn take_engine(&self) -> Option<Engine> {
        match std::mem::replace(&mut *self.0.lock(), State::Stopped) {
            State::Running(engine, _) => Some(engine),
            State::Built(_) | State::Stopped => None,
        }
    }

    /// Stops immediately, as a crash would: nothing is finished, released or written. For tests of crashes; another
    /// engine delivers the events after their leases have lapsed.
    pub fn abort(&self) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Stopped);
        drop(state);
    }

    /// The part of a Writer that every driver shares. For authors of drivers; services call `new` on their driver's
    /// Writer, for example `SqliteWriter::new(&store, &outbox)`.
    pub fn writer_core(&self) -> WriterCore {
        let hot_path = (self.0.mode != Mode::WriterOnly).then(|| self.0.hot_path.clone());
        WriterCore::new(self.0.hooks.clone(), self.0.limits, hot_path)
    }

    /// Reports that the caller has committed the transaction of this receipt. Never blocks and never fails.
    ///
    /// The `after_commit` hooks run immediately and rely on this report. The engine does not: before it delivers the
    /// events, it looks up, in one batched statement, which rows are really committed.
    pub fn committed(&self, receipt: Receipt) {
        receipt.committed(Proof::CallersWord, |_| true);
    }

    /// Polls the store once, now. Returns how many rows were claimed; zero if the engine does not run.
    pub async fn poll_once(&self) -> Result<usize, StoreError> {
        match self.delivering() {
            Some(engine) => Ok(engine.poll_once().await?.claimed),
            None => Ok(0),
        }
    }

    /// Purges once, now. Returns how many rows were removed; zero if the engine does not run.
    pub async fn purge_once(&self) -> Result<u64, StoreError> {
        match self.running() {
            Some(engine) => engine.purge_once().await,
            None => Ok(0),
        }
    }

    /// Waits until nothing is due, queued, running or on its way to the store. For tests. Does not wait for events that
    /// are not due: delayed ones, ones that wait for a retry, and those of a closed route.
    pub async fn idle(&self) -> Result<(), StoreError> {
        let Some(engine) = self.delivering() else { return Ok(()) };
        loop {
            let polled = engine.poll_once().await?;
            engine.quiet().await;
            if polled.claimed == 0 && !polled.full && !polled.again {
                return Ok(());
            }
        }
    }

    /// How many events this engine holds: queued, running or on their way to the store.
    pub fn held(&self) -> usize {
        self.running().map_or(0, |engine| engine.held())
    }

    /// The engine, if it runs and is not writer-only. A writer-only engine has no workers for what a poll claims.
    fn delivering(&self) -> Option<Arc<EngineState>> {
        self.running().filter(|engine| engine.settings.mode != Mode::WriterOnly)
    }

    fn running(&self) -> Option<Arc<EngineState>> {
        match &*self.0.lock() {
            State::Running(_, engine) => Some(Arc::clone(engine)),
            _ => None,
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.0.lock() {
            State::Built(_) => "built",
            State::Running(..) => "running",
            State::Stopped => "stopped",
        };
        f.debug_struct("Outbox").field("mode", &self.0.mode).field("state", &state).finish()
    }
}
