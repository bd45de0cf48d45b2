//! One outbox of a running relay, as the admin listener sees it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use posthaste::{Admin, Store, StoreError};

use super::tail::Tail;

/// What the relay tells the API of one of its outboxes.
#[derive(Debug)]
pub(crate) struct Served {
    name: String,
    /// Not there until the store could be opened.
    store: OnceLock<Opened>,
    /// Changes when the relay is told to read its configuration again.
    routes: RwLock<Vec<String>>,
    tail: Tail,
}

/// The two doors of one store.
#[derive(Debug)]
struct Opened {
    admin: Arc<dyn Admin>,
    store: Arc<dyn Store>,
}

impl Served {
    pub(crate) fn new(name: impl Into<String>, routes: Vec<String>) -> Self {
        Self { name: name.into(), store: OnceLock::new(), routes: RwLock::new(routes), tail: Tail::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The operator's door; none while the store cannot be opened.
    pub(crate) fn admin(&self) -> Option<&dyn Admin> {
        self.store.get().map(|opened| &*opened.admin)
    }

    /// How long the oldest event that has been due waits: cheap, so that probes may ask for it. None while
    /// the store cannot be opened.
    pub(crate) async fn oldest_pending(&self) -> Option<Result<Option<Duration>, StoreError>> {
        Some(self.store.get()?.store.oldest_pending(None).await)
    }

    /// The store is open. Only the first one counts: a relay opens each store once.
    pub(crate) fn opened(&self, admin: Arc<dyn Admin>, store: Arc<dyn Store>) {
        let _ = self.store.set(Opened { admin, store });
    }

    /// The names of the routes, in the order of the configuration.
    pub(crate) fn routes(&self) -> Vec<String> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_routes(&self, routes: Vec<String>) {
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
    }

    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }
}
