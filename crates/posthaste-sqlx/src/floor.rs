//! Where a claim begins to read.
//!
//! A claimed or delivered row leaves a dead entry behind in the claim's index, and as long as any
//! transaction on the server holds an old snapshot, nothing can remove it: claims that begin at the
//! bottom would step over every event of the last hours. So most claims begin above what was seen
//! before, at the floor.
//!
//! What lies below the floor is not lost, only late: a transaction that committed after its time, a row
//! that another claimer had locked. Claims from the bottom find it. They may take a tenth of the time,
//! so on a healthy server they are every few milliseconds, and on a server with a forgotten transaction
//! they cost a tenth of the claims. A claim from the floor that found less than it asked for says when to
//! look again, from the bottom: nobody else may come for a whole poll interval.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;

/// A place in the claim's index: everything before it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) due: Timestamp,
    pub(crate) seq: i64,
}

impl Place {
    pub(crate) const BOTTOM: Self = Self { due: Timestamp::from_micros(i64::MIN), seq: i64::MIN };
}

/// Between two claims from the bottom lies at least so many times what the last one took.
const REST: u32 = 9;

/// The floor of one store.
#[derive(Debug)]
pub(crate) struct Floor(Mutex<State>);

#[derive(Debug)]
struct State {
    place: Place,
    next_sweep: Instant,
    /// Whether somebody rings when it is time for the next sweep.
    ring_planned: bool,
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { place: Place::BOTTOM, next_sweep: Instant::now(), ring_planned: false }))
    }

    /// Where the next claim begins: at the floor, or at the bottom when it is time.
    pub(crate) fn begin(&self) -> Place {
        let state = self.lock();
        match Instant::now() < state.next_sweep {
            true => state.place,
            false => Place::BOTTOM,
        }
    }

    /// A claim that began at `from` has seen everything before `seen`, and took so long.
    pub(crate) fn end(&self, from: Place, seen: Place, took: Duration) {
        let mut state = self.lock();
        if from == Place::BOTTOM {
            state.next_sweep = Instant::now() + took * REST;
            state.ring_planned = false;
            // Also downwards: there is more where this came from, or the server's clock was set back.
            state.place = seen;
        } else {
            state.place = state.place.max(seen);
        }
    }

    /// A claim from the floor found less than it might have, so nobody comes again before the next
    /// hint, and what that claim was to find may lie below. Answers when to ring for the sweep, if
    /// nobody does yet.
    #[cfg(feature = "postgres")]
    pub(crate) fn plan_ring(&self) -> Option<Instant> {
        let mut state = self.lock();
        let is_planned = std::mem::replace(&mut state.ring_planned, true);
        (!is_planned).then_some(state.next_sweep)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::ZERO;
    const SLOW: Duration = Duration::from_secs(3600);

    fn place(due: i64) -> Place {
        Place { due: Timestamp::from_micros(due), seq: 1 }
    }

    #[test]
    fn first_claim_begins_at_the_bottom() {
        assert_eq!(Floor::new().begin(), Place::BOTTOM);
    }

    #[test]
    fn slow_sweep_is_followed_by_claims_from_the_floor() {
        let floor = Floor::new();
        floor.end(Place::BOTTOM, place(5), SLOW);
        assert_eq!(floor.begin(), place(5));
        floor.end(place(5), place(7), SLOW);
        assert_eq!(floor.begin(), place(7));
    }

    #[test]
    fn fast_sweep_is_soon_repeated() {
        let floor = Floor::new();
        floor.end(Place::BOTTOM, place(5), FAST);
        assert_eq!(floor.begin(), Place::BOTTOM);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn one_ring_is_planned_for_each_sweep() {
        let floor = Floor::new();
        floor.end(Place::BOTTOM, place(5), SLOW);
        assert!(floor.plan_ring().is_some());
        assert!(floor.plan_ring().is_none());
        floor.end(Place::BOTTOM, place(5), SLOW);
        assert!(floor.plan_ring().is_some());
    }

    #[test]
    fn only_a_sweep_lowers_the_floor() {
        let floor = Floor::new();
        floor.end(Place::BOTTOM, place(5), SLOW);
        floor.end(place(5), place(3), SLOW);
        assert_eq!(floor.begin(), place(5));
        floor.end(Place::BOTTOM, place(3), SLOW);
        assert_eq!(floor.begin(), place(3));
    }
}
