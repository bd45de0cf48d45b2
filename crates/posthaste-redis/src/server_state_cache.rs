//! A cache of the server's state, the paused and parked routes of each shard, so that not every claim has to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How old a state may be before it is read again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The last state of each shard, by its number.
#[derive(Debug, Default)]
pub(crate) struct ServerStateCache(Mutex<BTreeMap<u16, CachedState>>);

/// The last state of one shard.
#[derive(Debug)]
struct CachedState {
    /// `None` if an operator has changed something since.
    read_at: Option<Instant>,
    state: ServerState,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ServerState {
    /// The routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
    /// What rows are parked for.
    pub(crate) parked: BTreeSet<String>,
}

impl ServerStateCache {
    /// Whether the state of this shard is to be read again.
    pub(crate) fn is_old(&self, shard: u16) -> bool {
        let read_at = self.lock().get(&shard).and_then(|cached| cached.read_at);
        read_at.is_none_or(|at| at.elapsed() >= MAX_AGE)
    }

    pub(crate) fn set(&self, shard: u16, state: ServerState) {
        self.lock().insert(shard, CachedState { read_at: Some(Instant::now()), state });
    }

    /// What all shards said last. One that does not answer is taken at its last word: a route that it had paused
    /// stays so.
    pub(crate) fn all(&self) -> ServerState {
        let mut all = ServerState::default();
        for cached in self.lock().values() {
            all.paused.extend(cached.state.paused.iter().cloned());
            all.parked.extend(cached.state.parked.iter().cloned());
        }
        all
    }

    /// An operator changed something: the next claim looks again.
    pub(crate) fn forget(&self) {
        self.lock().values_mut().for_each(|cached| cached.read_at = None);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, CachedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
