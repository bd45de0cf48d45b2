//! How much a claim asks for where the line is slow.
//!
//! A claim that its caller does not wait for is lost with all that it has leased, until those leases end. The next
//! one asks for half as much, so that it comes in time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most that a claim is taken to have asked for; an engine asks for no more.
const MOST: usize = 16 * 1024 * 1024;

/// Less is not asked for: events would come one by one.
const LEAST: usize = 64 * 1024;

/// A claim that was given up sooner says nothing about the line.
const TELLING: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Slow>>);

/// What is known of a line on which a claim did not come in time.
#[derive(Clone, Copy, Debug)]
struct Slow {
    bytes: usize,
    /// How long the caller waited.
    patience: Duration,
}

impl Pace {
    /// A claim begins that may have so many bytes.
    pub(crate) fn begin(&self, max_bytes: usize) -> Claiming<'_> {
        let most = self.lock().map_or(usize::MAX, |slow| slow.bytes);
        Claiming { pace: self, bytes: max_bytes.min(most), since: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim under way. Dropped, it was given up.
#[derive(Debug)]
pub(crate) struct Claiming<'p> {
    pace: &'p Pace,
    /// How much it may ask for.
    pub(crate) bytes: usize,
    since: Instant,
}

impl Claiming<'_> {
    /// It came in time, with so many bytes. If a claim of twice as many would come in half the time that the caller
    /// waits, the next one may have them.
    pub(crate) fn ended(self, bytes: usize) {
        let is_telling = bytes >= self.bytes / 2;
        if let Some(slow) = self.pace.lock().as_mut()
            && is_telling
            && self.since.elapsed() * 4 < slow.patience
        {
            slow.bytes = slow.bytes.max(self.bytes.saturating_mul(2));
        }
        std::mem::forget(self);
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        let patience = self.since.elapsed();
        if patience >= TELLING {
            let bytes = (self.bytes.min(MOST) / 2).max(LEAST);
            *self.pace.lock() = Some(Slow { bytes, patience });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MIB: usize = 1024 * 1024;

    async fn give_up(pace: &Pace, after: Duration) {
        let claiming = pace.begin(usize::MAX);
        advance(after).await;
        drop(claiming);
    }

    async fn comes(pace: &Pace, bytes: usize, after: Duration) {
        let claiming = pace.begin(16 * MIB);
        advance(after).await;
        claiming.ended(bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn claim_that_was_given_up_is_followed_by_smaller_ones() {
        let pace = Pace::default();
        give_up(&pace, Duration::from_millis(999)).await;
        assert_eq!(pace.begin(16 * MIB).bytes, 16 * MIB, "it was ended for another reason");
        for mib in [8, 4, 2, 1] {
            give_up(&pace, Duration::from_secs(10)).await;
            assert_eq!(pace.begin(16 * MIB).bytes, mib * MIB);
        }
        for _ in 0..10 {
            give_up(&pace, Duration::from_secs(10)).await;
        }
        assert_eq!(pace.begin(16 * MIB).bytes, LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn claims_grow_again_when_the_line_is_faster() {
        let pace = Pace::default();
        give_up(&pace, Duration::from_secs(8)).await;
        give_up(&pace, Duration::from_secs(8)).await;
        comes(&pace, 4 * MIB, Duration::from_secs(2)).await;
        assert_eq!(pace.begin(16 * MIB).bytes, 4 * MIB, "twice as many would take half of the time");
        comes(&pace, 100, Duration::from_millis(1)).await;
        assert_eq!(pace.begin(16 * MIB).bytes, 4 * MIB, "a claim that found little says nothing");
        comes(&pace, 4 * MIB, Duration::from_millis(1900)).await;
        assert_eq!(pace.begin(16 * MIB).bytes, 8 * MIB);
        comes(&pace, 8 * MIB, Duration::from_millis(1900)).await;
        assert_eq!(pace.begin(16 * MIB).bytes, 16 * MIB);
    }
}
