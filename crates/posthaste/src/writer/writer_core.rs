//! `WriterCore`: the state that every Writer shares.

use std::sync::Arc;

use crate::engine::HotPath;
use crate::event::Limits;
use crate::store::Notifier;
use crate::writer_hook::{Hooks, WriterHook};

/// State that every Writer shares: hooks, limits, and the engine to which its rows are born leased.
/// [`Outbox::writer_core`](crate::Outbox::writer_core) makes it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterCore {
    pub(super) parts: Arc<WriterParts>,
    /// Wakes other processes after a commit of rows that no engine holds.
    pub(super) notifier: Option<Notifier>,
}

#[derive(Debug)]
pub(super) struct WriterParts {
    pub(super) hooks: Hooks,
    pub(super) limits: Limits,
    /// `None` for a writer-only outbox, which delivers nothing in this process.
    pub(super) hot_path: Option<HotPath>,
}

impl WriterCore {
    pub(crate) fn new(hooks: Vec<Arc<dyn WriterHook>>, limits: Limits, hot_path: Option<HotPath>) -> Self {
        Self { parts: Arc::new(WriterParts { hooks: Hooks(hooks), limits, hot_path }), notifier: None }
    }

    /// The shared state of Writers in a service that has no outbox because a relay in another process delivers. For
    /// crates that make Writers without a store.
    pub fn writer_only(hooks: Vec<Arc<dyn WriterHook>>, limits: Limits) -> Self {
        Self::new(hooks, limits, None)
    }

    /// Adds a notifier that is notified after every commit of due rows that this process does not hold. For stores that
    /// can wake other processes.
    pub fn with_notifier(self, notifier: Notifier) -> Self {
        Self { notifier: Some(notifier), ..self }
    }
}
