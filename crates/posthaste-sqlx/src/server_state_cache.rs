//! A cache of the server's state, its clock and the paused routes, so that not every claim has to ask.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;

/// How old a state may be before it is read again.
const MAX_AGE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ServerStateCache(Mutex<Option<ServerState>>);

#[derive(Clone, Debug)]
pub(crate) struct ServerState {
    pub(crate) read_at: Instant,
    /// The server's clock.
    pub(crate) now: Timestamp,
    /// The routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
}

impl ServerStateCache {
    pub(crate) fn recent(&self) -> Option<ServerState> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().filter(|state| state.read_at.elapsed() < MAX_AGE).cloned()
    }

    pub(crate) fn set(&self, state: Option<ServerState>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// An operator changed something.
    pub(crate) fn forget(&self) {
        self.set(None);
    }
}
