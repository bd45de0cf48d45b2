//! `AdminOutbox`: one outbox as the API sees it.

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
    /// Empty until the store is open; set once, by [`opened`](Self::opened).
    store: OnceLock<OpenedStore>,
    /// Names of the routes. A relay replaces them when it reloads its configuration.
    routes: RwLock<Vec<String>>,
    /// Filled by the engine, followed by `tail`.
    feed: DeliveryFeed,
}

/// One store through both of its traits.
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

    /// The name of the outbox.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store for operators' calls; `None` while it is not open.
    pub(crate) fn admin(&self) -> Option<&dyn Admin> {
        self.store.get().map(|opened| &*opened.admin)
    }

    /// The age of the oldest pending event that has been due; `None` while the store is not open. The query is cheap
    /// enough for probes.
    pub(crate) async fn oldest_pending(&self) -> Option<Result<Option<Duration>, StoreError>> {
        Some(self.store.get()?.store.oldest_pending(None).await)
    }

    /// Sets the store once it is open. Further calls have no effect.
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

    /// The feed of deliveries. The engine needs a clone of it as an interceptor, or `tail` shows nothing.
    pub fn feed(&self) -> &DeliveryFeed {
        &self.feed
    }
}
