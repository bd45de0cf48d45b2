//! Shards that do not answer: they rest, so that the others need not wait for them each time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first rest. Each that follows without an answer in between is twice as long, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The rests of all shards, by their number.
#[derive(Debug)]
pub(crate) struct Rests(Mutex<Vec<Rest>>);

#[derive(Clone, Debug, Default)]
struct Rest {
    /// None while the shard answers.
    until: Option<Instant>,
    length: Duration,
    /// A look at it is under way.
    is_looked_at: bool,
}

impl Rests {
    pub(crate) fn of(shards: u16) -> Self {
        Self(Mutex::new(vec![Rest::default(); usize::from(shards)]))
    }

    /// Whether the shard did not answer the last time.
    pub(crate) fn is_resting(&self, shard: u16) -> bool {
        self.lock()[usize::from(shard)].until.is_some()
    }

    /// A shard is asked. Unless it is said that it answered, it rests.
    pub(crate) fn ask(&self, shard: u16) -> Asked<'_> {
        Asked { rests: self, shard }
    }

    /// The shards whose rest is over, each once: the caller looks at them.
    pub(crate) fn take_rested(&self) -> Vec<u16> {
        let (mut rests, now) = (self.lock(), Instant::now());
        let is_over = |rest: &Rest| !rest.is_looked_at && rest.until.is_some_and(|until| until <= now);
        let rested = rests.iter_mut().zip(0..).filter(|(rest, _)| is_over(rest));
        rested
            .map(|(rest, shard)| {
                rest.is_looked_at = true;
                shard
            })
            .collect()
    }

    fn answered(&self, shard: u16) {
        self.lock()[usize::from(shard)] = Rest::default();
    }

    fn fell_silent(&self, shard: u16) {
        let (rest, now) = (&mut self.lock()[usize::from(shard)], Instant::now());
        rest.is_looked_at = false;
        // Calls that were under way together say it once.
        if rest.until.is_none_or(|until| until <= now) {
            rest.length = (2 * rest.length).clamp(FIRST, LONGEST);
            rest.until = Some(now + rest.length);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shard that was asked. Dropped, it did not answer in time.
#[derive(Debug)]
pub(crate) struct Asked<'r> {
    rests: &'r Rests,
    shard: u16,
}

impl Asked<'_> {
    pub(crate) fn answered(self) {
        self.rests.answered(self.shard);
        std::mem::forget(self);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.rests.fell_silent(self.shard);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rests_grow_to_half_a_minute_and_end_with_an_answer() {
        let rests = Rests::of(2);
        for secs in [1, 2, 4, 8, 16, 30, 30] {
            // Several calls were under way when it fell silent.
            drop((rests.ask(1), rests.ask(1)));
            assert!(rests.is_resting(1) && !rests.is_resting(0));
            advance(Duration::from_secs(secs) - Duration::from_millis(1)).await;
            assert!(rests.take_rested().is_empty(), "{secs}");
            advance(Duration::from_millis(1)).await;
            assert_eq!(rests.take_rested(), [1]);
            assert!(rests.take_rested().is_empty(), "one look is enough");
        }
        rests.ask(1).answered();
        assert!(!rests.is_resting(1));
        drop(rests.ask(1));
        advance(FIRST).await;
        assert_eq!(rests.take_rested(), [1]);
    }
}
