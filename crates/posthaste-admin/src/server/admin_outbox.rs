//! One outbox, as the API sees it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use posthaste::{Admin, Store, StoreError};

use super::DeliveryFeed;

/// One outbox, as the API sees it: its name, its routes, its store once that is open, and its deliveries.
///
/// A service that has opened its store already uses [`open`](Self::open).
#[derive(Debug)]
pub struct AdminOutbox {
    name: String,
    /// Not there until the store could be opened.
    store: OnceLock<OpenedStore>,
    /// Changes when a relay reads its configuration again.
    routes: RwLock<Vec<String>>,
    feed: DeliveryFeed,
}

/// One store, as operators' tools and as engines use it.
#[derive(Debug)]
struct OpenedStore {
    admin: Arc<dyn Admin>,
    store: Arc<dyn Store>,
}

impl AdminOutbox {
    /// An outbox whose store is not open yet.
    pub fn new(name: impl Into<String>, routes: Vec<String>) -> Self {
        Self {
            name: name.into(),
            store: OnceLock::new(),
            routes: RwLock::new(routes),
            feed: DeliveryFeed::default(),
        }
    }

    /// An outbox whose store is open.
    ///
    /// ```
    /// use posthaste::MemoryStore;
    /// use posthaste_admin::AdminOutbox;
    ///
    /// let store = MemoryStore::new();
    /// let outbox = AdminOutbox::open("shop", vec!["mail".to_owned()], store);
    /// assert_eq!(outbox.name(), "shop");
    /// ```
    pub fn open<S: Admin + Store + Clone + 'static>(
        name: impl Into<String>,
        routes: Vec<String>,
        store: S,
    ) -> Self {
        let outbox = Self::new(name, routes);
        outbox.opened(Arc::new(store.clone()), Arc::new(store));
        outbox
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `None` while the store cannot be opened.
    pub(crate) fn admin(&self) -> Option<&dyn Admin> {
        self.store.get().map(|opened| &*opened.admin)
    }

    /// How long the oldest event that has been due waits: cheap, so that probes may ask for it. None while
    /// the store cannot be opened.
    pub(crate) async fn oldest_pending(&self) -> Option<Result<Option<Duration>, StoreError>> {
        Some(self.store.get()?.store.oldest_pending(None).await)
    }

    /// Says that the store is open. Only the first call counts: each store is opened once.
    pub fn opened(&self, admin: Arc<dyn Admin>, store: Arc<dyn Store>) {
        let _ = self.store.set(OpenedStore { admin, store });
    }

    /// The names of the routes, in the order of the configuration.
    pub(crate) fn routes(&self) -> Vec<String> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the names of the routes.
    pub fn set_routes(&self, routes: Vec<String>) {
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
    }

    /// The feed of its deliveries: the engine must have a clone of it as an interceptor, or `tail` shows nothing.
    pub fn feed(&self) -> &DeliveryFeed {
        &self.feed
    }
}
