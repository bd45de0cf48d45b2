//! Cache of the server's clock and of the paused routes, so that not every claim reads them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;

/// The age at which a state is read again. A pause takes effect in other processes within this time.
const MAX_AGE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ServerStateCache(Mutex<Option<ServerState>>);

#[derive(Clone, Debug)]
pub(crate) struct ServerState {
    pub(crate) read_at: Instant,
    /// The server's clock at `read_at`.
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

    /// Drops the cached state, because an operator has changed something.
    pub(crate) fn forget(&self) {
        self.set(None);
    }
}
