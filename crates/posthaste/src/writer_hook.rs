//! Hooks: code around every write of events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::BoxError;
use crate::event::Event;

/// Called around every write, once per batch: `before_write`, the INSERT, `after_write`, then `after_commit` or
/// `after_rollback`. A write without events calls none of them.
///
/// Only `before_write` may fail. A panic in the other three is logged and ignored. If the reply to COMMIT was lost,
/// neither of the last two runs, because the outcome is unknown.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a writer hook",
    note = "implement `WriterHook` for it; what looks at deliveries is an `Interceptor`, for `interceptor(…)`"
)]
pub trait WriterHook: Send + Sync + 'static {
    /// May change the events or remove some. An empty list suppresses the write, and an error refuses it. Default: the
    /// events unchanged.
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        Ok(events)
    }

    /// The rows are inserted, and the transaction is still open.
    fn after_write(&self, events: &[Event]) {
        let _ = events;
    }

    /// The transaction committed.
    fn after_commit(&self, events: &[Event]) {
        let _ = events;
    }

    /// The transaction, or the savepoint around these events, was rolled back.
    fn after_rollback(&self, events: &[Event]) {
        let _ = events;
    }
}

#[derive(Clone, Default)]
pub(crate) struct Hooks(pub(crate) Vec<Arc<dyn WriterHook>>);

impl Hooks {
    pub(crate) fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        self.0.iter().try_fold(events, |events, hook| hook.before_write(events))
    }

    pub(crate) fn after_write(&self, events: &[Event]) {
        self.notify("after_write", events, |hook| hook.after_write(events));
    }

    pub(crate) fn after_commit(&self, events: &[Event]) {
        self.notify("after_commit", events, |hook| hook.after_commit(events));
    }

    pub(crate) fn after_rollback(&self, events: &[Event]) {
        self.notify("after_rollback", events, |hook| hook.after_rollback(events));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn notify(&self, name: &str, events: &[Event], call: impl Fn(&dyn WriterHook)) {
        if events.is_empty() {
            return;
        }
        for hook in &self.0 {
            if catch_unwind(AssertUnwindSafe(|| call(hook.as_ref()))).is_err() {
                tracing::error!(
                    hook = name,
                    events = events.len(),
                    "a writer hook panicked; the panic is ignored"
                );
            }
        }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hooks", self.0.len())
    }
}
