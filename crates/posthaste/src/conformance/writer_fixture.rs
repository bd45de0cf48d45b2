//! The fixture of the Writer cases: an engine, its deliveries, and the calls of its hooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::store_fixture::HOUR;
use crate::admin::{Admin, Filter, PageRequest};
use crate::error::BoxError;
use crate::event::{Event, EventId};
use crate::mutex::lock;
use crate::outbox::Outbox;
use crate::recording_destination::Recorder;
use crate::route::{Route, Routes};
use crate::row::EventDetail;
use crate::store::Store;
use crate::writer_hook::WriterHook;

/// A running engine on one store. Only the hot path and the wake-ups of commits can wake it, and it records everything.
///
/// Its hook refuses events of the type [`Scene::REFUSED`] and removes those of the type [`Scene::SUPPRESSED`].
#[derive(Debug)]
pub struct Scene {
    outbox: Outbox,
    recorder: Recorder,
    log: Log,
    store: Arc<dyn Store>,
    admin: Arc<dyn Admin>,
}

impl Scene {
    /// The type of events that the hook refuses.
    pub const REFUSED: &'static str = "Refused";
    /// The type of events that the hook removes.
    pub const SUPPRESSED: &'static str = "Suppressed";
    /// The type of events that the database refuses: the harness adds a constraint or a trigger to the table, as a
    /// service may do.
    pub const UNWRITABLE: &'static str = "Unwritable";

    /// An engine on this store.
    pub fn start(store: impl Store + Admin + Clone) -> Self {
        Self::on(Arc::new(store.clone()), Arc::new(store))
    }

    /// The outbox of the Writer under test.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn on(store: Arc<dyn Store>, admin: Arc<dyn Admin>) -> Self {
        let (recorder, log) = (Recorder::new(), Log::default());
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        let builder =
            Outbox::builder(Arc::clone(&store), routes).single_node().poll_interval(HOUR).hook(log.clone());
        Self { outbox: builder.start().expect("a good configuration"), recorder, log, store, admin }
    }

    /// A second engine on the same store, as in another process.
    pub(super) fn another(&self) -> Self {
        Self::on(Arc::clone(&self.store), Arc::clone(&self.admin))
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Waits until everything that can be delivered is delivered. Returns the ids, sorted, repeats included.
    pub(super) async fn delivered(&self) -> Vec<String> {
        soon("the engine is idle", self.outbox.idle()).await.expect("the call works");
        let mut ids: Vec<String> = self.recorder.ids().iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    }

    /// Waits until there were this many deliveries, without polling for them.
    pub(super) async fn wait_for(&self, n: usize) {
        soon("it is delivered", self.recorder.wait_for(n)).await;
    }

    /// The ids in the table, sorted.
    pub(super) async fn stored(&self) -> Vec<String> {
        let page = PageRequest::first(PageRequest::MAX_LIMIT);
        let rows = self.admin.list(&Filter::default(), &page).await.expect("the call works");
        let mut ids: Vec<String> = rows.items.iter().map(|row| row.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// The row of this event.
    pub(super) async fn row(&self, id: &EventId) -> EventDetail {
        let row = self.admin.get(id).await.expect("the call works");
        row.unwrap_or_else(|| panic!("event {id} is stored"))
    }

    /// Every call of a hook, in order: `name id,id`.
    pub(super) fn hooks(&self) -> Vec<String> {
        lock(&self.log.0).clone()
    }

    /// The ids of every call of one hook.
    pub(super) fn calls_of(&self, hook: &str) -> Vec<String> {
        let ids = |line: &String| line.strip_prefix(hook).map(|ids| ids.trim_start().to_owned());
        self.hooks().iter().filter_map(ids).collect()
    }
}

/// A hook that records its calls.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, name: &str, events: &[Event]) {
        let ids: Vec<&str> = events.iter().map(|event| event.id().as_str()).collect();
        lock(&self.0).push(format!("{name} {}", ids.join(",")));
    }
}

impl WriterHook for Log {
    fn before_write(&self, mut events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        self.note("before_write", &events);
        if events.iter().any(|event| event.event_type() == Scene::REFUSED) {
            return Err("the hook refuses".into());
        }
        events.retain(|event| event.event_type() != Scene::SUPPRESSED);
        Ok(events)
    }

    fn after_write(&self, events: &[Event]) {
        self.note("after_write", events);
    }

    fn after_commit(&self, events: &[Event]) {
        self.note("after_commit", events);
    }

    fn after_rollback(&self, events: &[Event]) {
        self.note("after_rollback", events);
    }
}

/// Waits for an event that must happen soon.
async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| panic!("not within {patience:?}: {what}"))
}
