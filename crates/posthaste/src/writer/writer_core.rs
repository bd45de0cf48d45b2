//! What every Writer shares.

use std::sync::Arc;

use crate::engine::HotPath;
use crate::event::Limits;
use crate::store::Notifier;
use crate::writer_hook::{Hooks, WriterHook};

/// What every Writer shares: hooks, limits, and the engine that its rows are born leased to.
/// Made by [`Outbox::writer_core`](crate::Outbox::writer_core); cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterCore {
    pub(super) parts: Arc<WriterParts>,
    /// Notified, for other processes, when rows that nobody holds were committed.
    pub(super) notifier: Option<Notifier>,
}

#[derive(Debug)]
pub(super) struct WriterParts {
    pub(super) hooks: Hooks,
    pub(super) limits: Limits,
    /// None for a writer-only outbox: nothing here is delivered by this process.
    pub(super) hot_path: Option<HotPath>,
}

impl WriterCore {
    pub(crate) fn new(hooks: Vec<Arc<dyn WriterHook>>, limits: Limits, hot_path: Option<HotPath>) -> Self {
        Self { parts: Arc::new(WriterParts { hooks: Hooks(hooks), limits, hot_path }), notifier: None }
    }

    /// What Writers share in a service that has no outbox because it only writes: a relay elsewhere
    /// delivers. For crates that make writer contexts without a store.
    pub fn writer_only(hooks: Vec<Arc<dyn WriterHook>>, limits: Limits) -> Self {
        Self::new(hooks, limits, None)
    }

    /// The same with a notifier that is notified after every commit of rows that are due and that this process
    /// does not hold. For stores that can wake other processes.
    pub fn with_notifier(self, notifier: Notifier) -> Self {
        Self { notifier: Some(notifier), ..self }
    }
}
