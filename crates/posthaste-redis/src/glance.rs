//! What a store has lately seen of its routes, shard by shard, so that not every claim has to look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How old what is known may be.
const GOOD_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Glance(Mutex<BTreeMap<u16, Seen>>);

/// What one shard said last.
#[derive(Debug)]
struct Seen {
    /// None if that has changed since.
    at: Option<Instant>,
    routes: Routes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// The routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
    /// What rows are parked for.
    pub(crate) parked: BTreeSet<String>,
}

impl Glance {
    /// Whether it is time to look at this shard.
    pub(crate) fn is_old(&self, shard: u16) -> bool {
        let seen_at = self.lock().get(&shard).and_then(|seen| seen.at);
        seen_at.is_none_or(|at| at.elapsed() >= GOOD_FOR)
    }

    pub(crate) fn set(&self, shard: u16, routes: Routes) {
        self.lock().insert(shard, Seen { at: Some(Instant::now()), routes });
    }

    /// What all shards said last. One that does not answer is taken at its last word: a route that it had paused
    /// stays so.
    pub(crate) fn all(&self) -> Routes {
        let mut all = Routes::default();
        for seen in self.lock().values() {
            all.paused.extend(seen.routes.paused.iter().cloned());
            all.parked.extend(seen.routes.parked.iter().cloned());
        }
        all
    }

    /// An operator changed something: the next claim looks again.
    pub(crate) fn forget(&self) {
        self.lock().values_mut().for_each(|seen| seen.at = None);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
