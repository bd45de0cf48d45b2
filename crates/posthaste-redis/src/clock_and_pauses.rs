//! Cache of the paused and parked routes of each shard, so that not every claim has to read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum age of a cached state.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Shard number -> its last known state.
#[derive(Debug, Default)]
pub(crate) struct ServerStateCache(Mutex<BTreeMap<u16, CachedState>>);

#[derive(Debug)]
struct CachedState {
    /// When a claim read it; `None` if this process has changed something since.
    read_at: Option<Instant>,
    state: ServerState,
}

/// What a claim reads besides rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerState {
    /// Routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
    /// Routes that have parked rows.
    pub(crate) parked: BTreeSet<String>,
}

impl ServerStateCache {
    /// Whether the state of this shard has to be read again.
    pub(crate) fn is_old(&self, shard: u16) -> bool {
        let read_at = self.lock().get(&shard).and_then(|cached| cached.read_at);
        read_at.is_none_or(|at| at.elapsed() >= MAX_AGE)
    }

    pub(crate) fn set(&self, shard: u16, state: ServerState) {
        self.lock().insert(shard, CachedState { read_at: Some(Instant::now()), state });
    }

    /// The states of all shards together. A shard that does not reply keeps its last known state, so a route paused
    /// there stays paused.
    pub(crate) fn all(&self) -> ServerState {
        let mut all = ServerState::default();
        for cached in self.lock().values() {
            all.paused.extend(cached.state.paused.iter().cloned());
            all.parked.extend(cached.state.parked.iter().cloned());
        }
        all
    }

    /// Makes the next claim read all states, because an operator changed something.
    pub(crate) fn forget(&self) {
        self.lock().values_mut().for_each(|cached| cached.read_at = None);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, CachedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
