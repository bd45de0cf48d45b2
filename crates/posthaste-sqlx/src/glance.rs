//! What a store has lately seen of its server, so that not every claim has to ask.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;

/// How old what is known may be.
const GOOD_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Glance(Mutex<Option<Seen>>);

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// The server's clock.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        expect(dead_code, reason = "SQLite has the clock of this process")
    )]
    pub(crate) now: Timestamp,
    /// The routes that an operator has paused.
    pub(crate) paused: BTreeSet<String>,
}

impl Glance {
    pub(crate) fn recent(&self) -> Option<Seen> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|seen| seen.at.elapsed() < GOOD_FOR).cloned()
    }

    pub(crate) fn set(&self, seen: Option<Seen>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// An operator changed something.
    pub(crate) fn forget(&self) {
        self.set(None);
    }
}
