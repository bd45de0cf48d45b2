//! Writer hooks that record their calls.

use std::sync::{Arc, Mutex};

use posthaste::{BoxError, Event, WriterHook};

/// Records every call of a hook, in order: `name id,id`.
#[derive(Clone, Debug, Default)]
pub struct HookCalls(Arc<Mutex<Vec<String>>>);

impl HookCalls {
    fn note(&self, name: &str, events: &[Event]) {
        let ids: Vec<&str> = events.iter().map(|event| event.id().as_str()).collect();
        self.0.lock().expect("no test panics in it").push(format!("{name} {}", ids.join(",")));
    }

    /// All recorded calls.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics in it").clone()
    }

    /// The ids of all calls of one hook.
    pub fn of(&self, name: &str) -> Vec<String> {
        let ids = |line: &String| line.strip_prefix(name).map(|ids| ids.trim_start().to_owned());
        self.lines().iter().filter_map(ids).collect()
    }
}

impl WriterHook for HookCalls {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        self.note("before_write", &events);
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

/// Records the end of every transaction: `committed id,id` or `rolled back id,id`.
#[derive(Clone, Debug, Default)]
pub struct TransactionEnds(HookCalls);

impl TransactionEnds {
    /// The ends since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.0.lock().expect("no test panics in it"))
    }
}

impl WriterHook for TransactionEnds {
    fn after_commit(&self, events: &[Event]) {
        self.0.note("committed", events);
    }

    fn after_rollback(&self, events: &[Event]) {
        self.0.note("rolled back", events);
    }
}
