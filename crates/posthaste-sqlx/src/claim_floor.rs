//! The claim floor: the position in the index where a claim begins to read.
//!
//! A claimed or delivered row leaves a dead entry behind in the claim's index, and as long as any
//! transaction on the server holds an old snapshot, nothing can remove it: claims that begin at the
//! bottom would step over every event of the last hours. So most claims begin above what was seen
//! before, at the floor.
//!
//! What lies below the floor is not lost, only late: a transaction that committed after its time, a row
//! that another claimer had locked. Sweeps, claims from the bottom, find it. They may take a tenth of the time,
//! so on a healthy server they are every few milliseconds, and on a server with a forgotten transaction
//! they cost a tenth of the claims. A claim from the floor that found less than it asked for says when to
//! look again, from the bottom: nobody else may come for a whole poll interval.
//!
//! A sweep can take longer than its caller waits. One that never ended, or that failed after a long time, is not begun
//! again: from then on each sweep is of a slice of time, from now downwards, and slices grow and shrink with what they
//! take. When all slices together are quick again, the forgotten transaction is gone, and sweeps are whole again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;

/// A position in the claim's index: everything before it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexPosition {
    pub(crate) due: Timestamp,
    pub(crate) seq: i64,
}

impl IndexPosition {
    pub(crate) const BOTTOM: Self = Self { due: Timestamp::from_micros(i64::MIN), seq: i64::MIN };
}

/// Between two sweeps lies at least so many times what the last one took.
const REST_FACTOR: u32 = 9;

/// A sweep that never ended counts for so long at most: nobody may have come for long.
const MAX_LOST_SWEEP_TIME: Duration = Duration::from_secs(30);

/// The first slice of time after a sweep that never ended, and the one that reaches down to the bottom.
const FIRST_SLICE_SPAN: Duration = Duration::from_secs(60);
const LAST_SLICE_SPAN: Duration = Duration::from_secs(365 * 24 * 3600);

/// No slice is shorter. One of this length that is lost too is stepped over until the next round: what is smaller
/// reads next to nothing, and slices of nothing would be repeated for ever.
const MIN_SLICE_SPAN: Duration = Duration::from_secs(1);

/// A slice that takes less is followed by a larger one, a slice that takes more by a smaller one.
const QUICK_SWEEP_TIME: Duration = Duration::from_millis(100);
const SLOW_SWEEP_TIME: Duration = Duration::from_secs(1);

/// A row becomes visible when its transaction commits, later than it became due. Few take longer than
/// this; what does is left to the sweeps.
pub(crate) const MAX_COMMIT_LAG: Duration = Duration::from_secs(1);

/// The claim floor of one store.
#[derive(Debug)]
pub(crate) struct ClaimFloor(Mutex<State>);

#[derive(Debug)]
struct State {
    position: IndexPosition,
    next_sweep: Instant,
    /// When a sweep began of which nobody has told the end.
    sweeping: Option<Instant>,
    sweep: Sweep,
    /// Whether a wake-up is planned for the time of the next sweep.
    wake_up_planned: bool,
}

/// What the next sweep reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Whole,
    Slice {
        top: Timestamp,
        span: Duration,
        /// What the slices above it took.
        spent: Duration,
    },
}

/// The range that one claim reads: what became due after a position, and before a time if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimRange {
    pub(crate) from: IndexPosition,
    pub(crate) until: Option<Timestamp>,
    /// The sweep that it is; none for a claim from the floor.
    sweep: Option<Sweep>,
}

impl ClaimRange {
    /// Everything.
    pub(crate) const WHOLE: Self =
        Self { from: IndexPosition::BOTTOM, until: None, sweep: Some(Sweep::Whole) };

    /// Whether something that is due may lie outside.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_partial(&self) -> bool {
        self.sweep != Some(Sweep::Whole)
    }
}

impl ClaimFloor {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            position: IndexPosition::BOTTOM,
            next_sweep: Instant::now(),
            sweeping: None,
            sweep: Sweep::Whole,
            wake_up_planned: false,
        }))
    }

    /// What the next claim reads: from the floor on, or from below when it is time. `now` is a time of the server's
    /// clock.
    pub(crate) fn begin(&self, now: Timestamp) -> ClaimRange {
        let (mut state, at) = (self.lock(), Instant::now());
        if let Some(since) = state.sweeping.take() {
            state.lose_sweep(at, at - since, now);
        }
        if at < state.next_sweep {
            return ClaimRange { from: state.position, until: None, sweep: None };
        }
        state.sweeping = Some(at);
        state.sweep.range()
    }

    /// A claim has seen everything of its range before `seen`, and took so long. It was full if there may be more.
    pub(crate) fn end(&self, range: &ClaimRange, seen: IndexPosition, full: bool, took: Duration) {
        let mut state = self.lock();
        let Some(sweep) = range.sweep else {
            state.position = state.position.max(seen);
            return;
        };
        state.rest(Instant::now() + took * REST_FACTOR);
        match sweep {
            // Also downwards: there is more where this came from, or the server's clock was set back.
            Sweep::Whole => state.position = seen,
            Sweep::Slice { .. } if full => {}
            Sweep::Slice { .. } => state.sweep = sweep.next(seen, took),
        }
    }

    /// A claim has failed after so long. A sweep that failed soon was not too long, whatever else was wrong: it is
    /// repeated after the rest that follows every sweep. One that took long is lost, like one that never ended.
    pub(crate) fn fail(&self, range: &ClaimRange, now: Timestamp, took: Duration) {
        if range.sweep.is_none() {
            return;
        }
        let (mut state, at) = (self.lock(), Instant::now());
        match took {
            took if took > SLOW_SWEEP_TIME => state.lose_sweep(at, took, now),
            _ => state.rest(at + took * REST_FACTOR),
        }
    }

    /// A claim of a part found less than it might have, so nobody comes again before the next
    /// hint, and what that claim was to find may lie outside. Returns when to notify for the sweep, if
    /// nobody does yet.
    #[cfg(feature = "postgres")]
    pub(crate) fn plan_wake_up(&self) -> Option<Instant> {
        let mut state = self.lock();
        let is_planned = std::mem::replace(&mut state.wake_up_planned, true);
        (!is_planned).then_some(state.next_sweep)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rest(&mut self, until: Instant) {
        (self.next_sweep, self.sweeping, self.wake_up_planned) = (until, None, false);
    }

    /// The sweep took so long that nobody waited for it.
    fn lose_sweep(&mut self, at: Instant, took: Duration, now: Timestamp) {
        self.rest(at + took.min(MAX_LOST_SWEEP_TIME) * REST_FACTOR);
        self.sweep = self.sweep.smaller(now);
        if self.position == IndexPosition::BOTTOM {
            self.position = IndexPosition { due: now - MAX_COMMIT_LAG, seq: 0 };
        }
    }
}

impl Sweep {
    fn range(self) -> ClaimRange {
        match self {
            Self::Whole => ClaimRange::WHOLE,
            Self::Slice { top, span, .. } => {
                let low = IndexPosition { due: top - span, seq: i64::MIN };
                let from = if span < LAST_SLICE_SPAN { low } else { IndexPosition::BOTTOM };
                ClaimRange { from, until: Some(top), sweep: Some(self) }
            }
        }
    }

    /// What is tried after one that never ended.
    fn smaller(self, now: Timestamp) -> Self {
        match self {
            Self::Whole => Self::Slice { top: now, span: FIRST_SLICE_SPAN, spent: Duration::ZERO },
            Self::Slice { top, span, spent } if span <= MIN_SLICE_SPAN => {
                Self::Slice { top: top - span, span: FIRST_SLICE_SPAN, spent: spent + MAX_LOST_SWEEP_TIME }
            }
            Self::Slice { top, span, spent } => {
                Self::Slice { top, span: (span.min(LAST_SLICE_SPAN) / 4).max(MIN_SLICE_SPAN), spent }
            }
        }
    }

    /// What follows a slice that took so long: the one below it, or after the last one all again from the top.
    fn next(self, seen: IndexPosition, took: Duration) -> Self {
        let Self::Slice { top, span, spent } = self else { return self };
        let spent = spent + took;
        if span >= LAST_SLICE_SPAN {
            return if spent < SLOW_SWEEP_TIME {
                Self::Whole
            } else {
                Self::Whole.smaller(seen.due + MAX_COMMIT_LAG)
            };
        }
        let next = match took {
            took if took < QUICK_SWEEP_TIME => span * 4,
            took if took > SLOW_SWEEP_TIME => (span / 4).max(MIN_SLICE_SPAN),
            _ => span,
        };
        Self::Slice { top: top - span, span: next, spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::ZERO;
    const SLOW: Duration = Duration::from_secs(3600);

    const MINUTE: Duration = Duration::from_secs(60);
    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    fn position(due: i64) -> IndexPosition {
        IndexPosition { due: Timestamp::from_micros(due), seq: 1 }
    }

    /// A floor whose next sweep is due at once.
    fn rested(floor: ClaimFloor) -> ClaimFloor {
        floor.lock().next_sweep = Instant::now();
        floor
    }

    #[test]
    fn first_claim_begins_at_the_bottom() {
        assert_eq!(ClaimFloor::new().begin(NOW).from, IndexPosition::BOTTOM);
    }

    #[test]
    fn slow_sweep_is_followed_by_claims_from_the_floor() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, SLOW);
        let range = floor.begin(NOW);
        assert_eq!(range.from, position(5));
        floor.end(&range, position(7), true, SLOW);
        assert_eq!(floor.begin(NOW).from, position(7));
    }

    /// However many sweeps in a row fail, a whole round comes to its end as soon as they work again.
    #[test]
    fn sweeps_that_failed_for_long_reach_the_bottom_again() {
        let floor = ClaimFloor::new();
        for _ in 0..40 {
            floor.lock().next_sweep = Instant::now();
            floor.begin(NOW);
        }
        let reaches_the_bottom = (0..60).any(|_| {
            floor.lock().next_sweep = Instant::now();
            let range = floor.begin(NOW);
            floor.end(&range, position(5), false, FAST);
            range.from == IndexPosition::BOTTOM
        });
        assert!(reaches_the_bottom);
    }

    #[test]
    fn fast_sweep_is_soon_repeated() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, FAST);
        assert_eq!(floor.begin(NOW).from, IndexPosition::BOTTOM);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn one_ring_is_planned_for_each_sweep() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, SLOW);
        assert!(floor.plan_wake_up().is_some());
        assert!(floor.plan_wake_up().is_none());
        floor.end(&ClaimRange::WHOLE, position(5), true, SLOW);
        assert!(floor.plan_wake_up().is_some());
    }

    #[test]
    fn only_a_sweep_lowers_the_floor() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, SLOW);
        floor.end(&floor.begin(NOW), position(3), true, SLOW);
        assert_eq!(floor.begin(NOW).from, position(5));
        floor.end(&ClaimRange::WHOLE, position(3), true, SLOW);
        assert_eq!(floor.begin(NOW).from, position(3));
    }

    #[test]
    fn sweep_that_never_ended_is_followed_by_claims_from_the_floor() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, FAST);
        assert_eq!(floor.begin(NOW).from, IndexPosition::BOTTOM);
        floor.lock().sweeping = Instant::now().checked_sub(MINUTE);
        assert_eq!(floor.begin(NOW).from, position(5));
        let rest = floor.lock().next_sweep - Instant::now();
        assert!(rest <= MAX_LOST_SWEEP_TIME * REST_FACTOR && rest > MAX_LOST_SWEEP_TIME, "{rest:?}");
    }

    /// A connection that was refused, for example, says nothing about how long a sweep takes.
    #[test]
    fn sweep_that_failed_at_once_is_soon_repeated_as_a_whole() {
        let floor = ClaimFloor::new();
        let sweep = floor.begin(NOW);
        floor.lock().sweeping = Instant::now().checked_sub(MINUTE);
        floor.fail(&sweep, NOW, FAST);
        let again = floor.begin(NOW);
        assert_eq!((again.from, again.until), (IndexPosition::BOTTOM, None));
    }

    #[test]
    fn sweep_that_the_server_ended_is_lost() {
        let floor = ClaimFloor::new();
        floor.fail(&floor.begin(NOW), NOW, MINUTE);
        assert_eq!(floor.begin(NOW).from, IndexPosition { due: NOW - MAX_COMMIT_LAG, seq: 0 });
        assert_eq!(rested(floor).begin(NOW).until, Some(NOW), "the next one is of a slice");
    }

    /// Whatever happens to claims from the floor, the next sweep comes when it is time.
    #[test]
    fn claim_from_the_floor_that_failed_changes_nothing() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, MINUTE);
        let next_sweep = floor.lock().next_sweep;
        floor.fail(&floor.begin(NOW), NOW, MINUTE);
        assert_eq!(floor.begin(NOW).from, position(5));
        assert_eq!(floor.lock().next_sweep, next_sweep);
    }

    /// A process that starts where no sweep ends must not wait for one.
    #[test]
    fn first_sweep_that_never_ended_leaves_a_floor_at_the_present() {
        let floor = ClaimFloor::new();
        floor.begin(NOW);
        floor.lock().sweeping = Instant::now().checked_sub(MINUTE);
        assert_eq!(floor.begin(NOW).from, IndexPosition { due: NOW - MAX_COMMIT_LAG, seq: 0 });
    }

    #[test]
    fn after_a_sweep_that_never_ended_slices_reach_the_bottom_piece_by_piece() {
        let mut floor = ClaimFloor::new();
        floor.begin(NOW);
        floor.begin(NOW);
        let (mut below, mut slices) = (NOW, 0);
        loop {
            floor = rested(floor);
            let slice = floor.begin(NOW);
            assert_eq!(slice.until, Some(below), "where the one before it began");
            // One of them never ends, another one is full: both are read again, the first in parts.
            match slices {
                2 => floor.lock().sweeping = Instant::now().checked_sub(MINUTE),
                3 => floor.end(&slice, position(5), true, FAST),
                _ => {
                    floor.end(&slice, position(5), false, FAST);
                    below = slice.from.due;
                }
            }
            if slices == 2 {
                floor.begin(NOW);
            }
            slices += 1;
            if slice.from == IndexPosition::BOTTOM {
                break;
            }
        }
        assert!(slices < 20, "{slices}");
        assert_eq!(rested(floor).begin(NOW).until, None, "they were quick, so the next sweep is whole");
    }

    #[test]
    fn slices_that_are_slow_begin_again_at_the_top() {
        let mut sweep = Sweep::Whole.smaller(NOW);
        while let Sweep::Slice { span, .. } = sweep
            && span < LAST_SLICE_SPAN
        {
            sweep = sweep.next(position(5), Duration::from_millis(99));
        }
        let again =
            sweep.next(IndexPosition { due: NOW - MAX_COMMIT_LAG, seq: 0 }, 2 * super::SLOW_SWEEP_TIME);
        assert_eq!(again, Sweep::Whole.smaller(NOW));
    }
}
