//! The claim floor: the position in the index at which most claims begin to read.
//!
//! Leased rows stay in the index that claims read, and a delivered row leaves a dead entry in it. While any transaction
//! on the server holds an old snapshot, the server cannot remove dead entries, and a claim that begins at the start of
//! the index steps over every event of the last hours. So most claims begin at the floor: above the rows that earlier
//! claims have seen.
//!
//! A row below the floor is delivered late, but not lost. Such a row was committed long after it became due, was locked
//! by another process when the floor passed it, or was leased by a process that died. Sweeps find it: a sweep is a
//! claim from the start of the index. Sweeps use at most a tenth of the time. On a healthy server there is one every
//! few milliseconds; on a server with a forgotten transaction they cost a tenth of the claims. After a claim from the
//! floor that was not full, the store wakes the engine for the next sweep, because otherwise the engine may not claim
//! again for a whole poll interval.
//!
//! A sweep can take longer than its caller waits. A whole sweep that never ended, or failed after a long time, is not
//! repeated. Instead each sweep reads a slice of time, from now downwards, and slices grow or shrink depending on how
//! long they take. When all slices together are quick again, the forgotten transaction is gone, and sweeps are whole
//! again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste::Timestamp;
use posthaste::store::Claim;

/// A position in the index that claims read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexPosition {
    pub(crate) due: Timestamp,
    pub(crate) seq: i64,
}

impl IndexPosition {
    pub(crate) const BOTTOM: Self = Self { due: Timestamp::from_micros(i64::MIN), seq: i64::MIN };
}

/// After a sweep there is a pause of this many times the duration of the sweep.
const REST_FACTOR: u32 = 9;

/// Upper bound for the duration of a sweep that never ended. The time since it began may be much longer, because the
/// engine may not have claimed for a long time.
const MAX_LOST_SWEEP_TIME: Duration = Duration::from_secs(30);

/// The first slice after a sweep that never ended, and the slice that reaches down to the start of the index.
const FIRST_SLICE_SPAN: Duration = Duration::from_secs(60);
const LAST_SLICE_SPAN: Duration = Duration::from_secs(365 * 24 * 3600);

/// The shortest slice. If a slice of this length never ends either, it is skipped, and the next slice begins below it:
/// a shorter one would read next to nothing, and would be repeated for ever.
const MIN_SLICE_SPAN: Duration = Duration::from_secs(1);

/// After a quicker slice the next one is larger, after a slower one it is smaller.
const QUICK_SWEEP_TIME: Duration = Duration::from_millis(100);
const SLOW_SWEEP_TIME: Duration = Duration::from_secs(1);

/// A row becomes visible when its transaction commits, which is later than the time at which it is due. Few
/// transactions take longer than this; their rows are found by sweeps.
const MAX_COMMIT_LAG: Duration = Duration::from_secs(1);

/// The claim floor of one store. One mutex guards all of it; it is never held across an await.
#[derive(Debug)]
pub(crate) struct ClaimFloor(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The floor. Claims between sweeps begin behind it.
    position: IndexPosition,
    /// When the next claim is to be a sweep.
    next_sweep: Instant,
    /// When the running sweep began. `None` if no sweep is running.
    sweeping: Option<Instant>,
    /// What the next sweep reads.
    sweep: Sweep,
    /// Whether a wake-up is planned for the time of the next sweep.
    wake_up_planned: bool,
}

/// The range of the next sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Whole,
    Slice {
        top: Timestamp,
        span: Duration,
        /// The total duration of the slices above this one, since the round began.
        spent: Duration,
    },
}

/// The range that one claim reads: rows that became due after a position and, if `until` is set, before a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimRange {
    pub(crate) from: IndexPosition,
    pub(crate) until: Option<Timestamp>,
    /// The sweep that this claim performs; `None` for a claim from the floor.
    sweep: Option<Sweep>,
}

impl ClaimRange {
    /// The whole index.
    pub(crate) const WHOLE: Self =
        Self { from: IndexPosition::BOTTOM, until: None, sweep: Some(Sweep::Whole) };

    /// True if a due row may lie outside the range.
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

    /// Runs a claim over the range whose turn it is, and updates the floor. Returns the range too.
    ///
    /// `seen_at` is a time of the server's clock before this claim. `last` is the position of the last claimed row;
    /// `None` if the claim has seen all that is due in its range.
    pub(crate) async fn around<T, E>(
        &self,
        claim: &Claim<'_>,
        seen_at: Timestamp,
        take: impl AsyncFnOnce(ClaimRange) -> Result<T, E>,
        last: impl FnOnce(&T) -> Option<IndexPosition>,
    ) -> Result<(T, ClaimRange), E> {
        // A claim by a clock of the caller, or one that skips recent rows, says nothing about the next claim.
        if claim.now.is_some() || !claim.skip_recent.is_zero() {
            return Ok((take(ClaimRange::WHOLE).await?, ClaimRange::WHOLE));
        }
        let (range, started) = (self.begin(seen_at), Instant::now());
        match take(range).await {
            Ok(taken) => {
                let last = last(&taken);
                let seen = last.unwrap_or(IndexPosition { due: seen_at - MAX_COMMIT_LAG, seq: 0 });
                self.end(&range, seen, last.is_some(), started.elapsed());
                Ok((taken, range))
            }
            Err(error) => {
                self.fail(&range, seen_at, started.elapsed());
                Err(error)
            }
        }
    }

    /// The range of the next claim: from the floor, or a sweep if its time has come. `now` is a time of the server's
    /// clock.
    fn begin(&self, now: Timestamp) -> ClaimRange {
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

    /// Updates the floor after a claim that has seen everything of its range before `seen`. `full`: there may be more.
    fn end(&self, range: &ClaimRange, seen: IndexPosition, full: bool, took: Duration) {
        let mut state = self.lock();
        let Some(sweep) = range.sweep else {
            state.position = state.position.max(seen);
            return;
        };
        state.rest(Instant::now() + took * REST_FACTOR);
        match sweep {
            // The floor may also move down: there are more rows below, or the server's clock was set back.
            Sweep::Whole => state.position = seen,
            Sweep::Slice { .. } if full => {}
            Sweep::Slice { .. } => state.sweep = sweep.next(seen, took),
        }
    }

    /// Updates the floor after a failed claim. A sweep that failed quickly was not too long, so it is repeated after
    /// the usual pause. One that failed after a long time is treated like one that never ended.
    fn fail(&self, range: &ClaimRange, now: Timestamp, took: Duration) {
        if range.sweep.is_none() {
            return;
        }
        let (mut state, at) = (self.lock(), Instant::now());
        match took {
            took if took > SLOW_SWEEP_TIME => state.lose_sweep(at, took, now),
            _ => state.rest(at + took * REST_FACTOR),
        }
    }

    /// Plans a wake-up for the next sweep, after a claim from the floor that was not full: the rows that caused the
    /// claim may lie outside its range, and the engine waits for the next notification or poll. Returns the time of the
    /// wake-up; `None` if one is planned already.
    pub(crate) fn plan_wake_up(&self) -> Option<Instant> {
        let mut state = self.lock();
        let is_planned = std::mem::replace(&mut state.wake_up_planned, true);
        (!is_planned).then_some(state.next_sweep)
    }

    /// The floor.
    #[cfg(feature = "mysql")]
    pub(crate) fn position(&self) -> IndexPosition {
        self.lock().position
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rest(&mut self, until: Instant) {
        (self.next_sweep, self.sweeping, self.wake_up_planned) = (until, None, false);
    }

    /// The sweep took so long that its caller gave up. Continues with smaller slices, and sets the floor so that claims
    /// between sweeps find new rows.
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

    /// The sweep after one that never ended.
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

    /// The sweep after a slice that took this long: the slice below it, or a new round after the last slice.
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

    /// A floor whose next sweep is due.
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

    /// However many sweeps in a row fail, a round reaches its end as soon as they work again.
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

    #[test]
    fn one_wake_up_is_planned_for_each_sweep() {
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

    /// A refused connection, for example, says nothing about the duration of a sweep.
    #[test]
    fn sweep_that_failed_quickly_is_soon_repeated_whole() {
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

    /// Failing claims from the floor must not delay the next sweep.
    #[test]
    fn claim_from_the_floor_that_failed_changes_nothing() {
        let floor = ClaimFloor::new();
        floor.end(&floor.begin(NOW), position(5), true, MINUTE);
        let next_sweep = floor.lock().next_sweep;
        floor.fail(&floor.begin(NOW), NOW, MINUTE);
        assert_eq!(floor.begin(NOW).from, position(5));
        assert_eq!(floor.lock().next_sweep, next_sweep);
    }

    /// A process that starts while no sweep can end must not depend on one.
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
            // One of them never ends, another one is full. Both are read again, the first one in smaller slices.
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
