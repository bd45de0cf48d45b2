//! The outbox: starts and stops the engine, and hands out writers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::config::{Config, ConfigError, Mode, Problem, Settings};
pub use crate::engine::ShutdownReport;
use crate::engine::{Engine, EngineState, HotPath, Proof};
use crate::error::StoreError;
use crate::event::Limits;
use crate::interceptor::Interceptor;
use crate::route::{RouteTable, Routes};
use crate::store::Store;
use crate::sync::lock;
use crate::writer::{Receipt, WriterCore};
use crate::writer_hook::WriterHook;

/// An outbox on one store. Cheap to clone; all clones are the same outbox.
///
/// Dropping the last clone stops the engine at once and is safe, but [`shutdown`](Self::shutdown)
/// is better: it finishes what is under way, so that nothing has to be delivered twice.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste::{Delivery, Event, MemoryStore, MemoryWriter, Outbox, Routes};
///
/// let store = MemoryStore::new();
/// let routes = Routes::new().handle("UserCreated", async |event: Delivery| {
///     println!("welcome, {}", event.id());
/// });
/// let outbox = Outbox::builder(store.clone(), routes).start()?;
///
/// let mut tx = MemoryWriter::new(&store, &outbox).begin().await?;
/// tx.write(Event::json("UserCreated", "Ada")?).await?;
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
    /// The configuration or the routes are wrong; every problem is named.
    #[error("{0}")]
    Config(#[from] ConfigError),

    /// The outbox was shut down before.
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

    /// Starts the engine. Calling it again is harmless; after a shutdown it is an error.
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

    /// Stops the hot path and claiming: what is queued and running is finished within the drain
    /// limit, the rest goes back to the store. Calling it again is harmless, and so is dropping
    /// the future: the shutdown goes on.
    pub async fn shutdown(&self) -> ShutdownReport {
        match self.take_engine() {
            Some(engine) => tokio::spawn(engine.shutdown()).await.unwrap_or_default(),
            None => ShutdownReport::default(),
        }
    }

    /// Stops in favour of another outbox on the same store, one with other routes or settings. As
    /// [`shutdown`](Self::shutdown), but only deliveries that have begun are finished, within the
    /// drain limit: what is queued goes back to the store at once, for the other to claim.
    ///
    /// Start the other one first and nothing waits; in strict mode retire this one first, or events
    /// overtake each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
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

    /// The engine, which nobody else stops then.
    fn take_engine(&self) -> Option<Engine> {
        match std::mem::replace(&mut *self.0.lock(), State::Stopped) {
            State::Running(engine, _) => Some(engine),
            State::Built(_) | State::Stopped => None,
        }
    }

    /// Stops at once, as a crash would: nothing is finished, given back or written. For tests of
    /// what happens then; the events are delivered by others when the leases have lapsed.
    pub fn abort(&self) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Stopped);
        drop(state);
    }

    /// The part of a Writer that every driver shares. For drivers; services call the `new` of their driver's Writer:
    /// `SqliteWriter::new(&store, &outbox)` for example.
    pub fn writer_core(&self) -> WriterCore {
        let hot_path = (self.0.mode != Mode::WriterOnly).then(|| self.0.hot_path.clone());
        WriterCore::new(self.0.hooks.clone(), self.0.limits, hot_path)
    }

    /// The transaction of this receipt was committed by its caller. Never blocks and never fails.
    ///
    /// The caller's word is enough for the hooks, but not for a delivery: the engine looks, in one
    /// batched statement, which of the rows are really there.
    pub fn committed(&self, receipt: Receipt) {
        receipt.committed(Proof::CallersWord, |_| true);
    }

    /// Polls the store once, now; answers how many rows were claimed. Zero if the engine does not run.
    pub async fn poll_once(&self) -> Result<usize, StoreError> {
        match self.delivering() {
            Some(engine) => Ok(engine.poll_once().await?.claimed),
            None => Ok(0),
        }
    }

    /// Purges once, now; answers how many rows went. Zero if the engine does not run.
    pub async fn purge_once(&self) -> Result<u64, StoreError> {
        match self.running() {
            Some(engine) => engine.purge_once().await,
            None => Ok(0),
        }
    }

    /// For tests: waits until nothing is due, queued, running or on its way to the store. Events
    /// that wait for their time (a delay, a retry, a closed route) are not waited for.
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

    /// How many events this engine holds now: queued, running or on their way to the store.
    pub fn held(&self) -> usize {
        self.running().map_or(0, |engine| engine.held())
    }

    /// The engine, unless it never claims: then nobody would work on what it claimed.
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
