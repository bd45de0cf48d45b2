//! What a store has lately seen of its routes, so that not every claim has to look.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old what is known may be.
const GOOD_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Glance(Mutex<Option<Seen>>);

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    at: Instant,
    /// The routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
    /// What rows are parked for.
    pub(crate) parked: BTreeSet<String>,
}

impl Seen {
    pub(crate) fn now(paused: BTreeSet<String>, parked: BTreeSet<String>) -> Self {
        Self { at: Instant::now(), paused, parked }
    }

    pub(crate) fn is_recent(&self) -> bool {
        self.at.elapsed() < GOOD_FOR
    }
}

impl Glance {
    /// What was seen last, recent or not.
    pub(crate) fn last(&self) -> Option<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, seen: Seen) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    /// An operator changed something: the next claim looks again.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
