//! Back-off of shards that do not reply: they are skipped for a while, so that calls to other shards do not wait for
//! them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first back-off. It doubles with each further call without a reply, up to the maximum.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The back-offs of all shards, by shard number.
#[derive(Debug)]
pub(crate) struct ShardBackoffs(Mutex<Vec<ShardBackoff>>);

#[derive(Clone, Debug, Default)]
struct ShardBackoff {
    /// End of the back-off; `None` while the shard replies.
    until: Option<Instant>,
    /// Length of the last back-off.
    delay: Duration,
    /// A probe was started after the back-off ended and has not finished.
    is_probed: bool,
}

impl ShardBackoffs {
    pub(crate) fn of(shards: u16) -> Self {
        Self(Mutex::new(vec![ShardBackoff::default(); usize::from(shards)]))
    }

    /// Whether the last call to the shard got no reply.
    pub(crate) fn is_backing_off(&self, shard: u16) -> bool {
        self.lock()[usize::from(shard)].until.is_some()
    }

    /// Starts a call to a shard. If the returned guard is dropped without [`replied`](PendingCall::replied), the shard
    /// backs off.
    pub(crate) fn start_call(&self, shard: u16) -> PendingCall<'_> {
        PendingCall { backoffs: self, shard }
    }

    /// Shards whose back-off has ended. Each is returned once; the caller must probe it.
    pub(crate) fn take_expired(&self) -> Vec<u16> {
        let (mut backoffs, now) = (self.lock(), Instant::now());
        let is_over =
            |backoff: &ShardBackoff| !backoff.is_probed && backoff.until.is_some_and(|until| until <= now);
        let expired = backoffs.iter_mut().zip(0..).filter(|(backoff, _)| is_over(backoff));
        expired
            .map(|(backoff, shard)| {
                backoff.is_probed = true;
                shard
            })
            .collect()
    }

    fn reset(&self, shard: u16) {
        self.lock()[usize::from(shard)] = ShardBackoff::default();
    }

    fn back_off(&self, shard: u16) {
        let (backoff, now) = (&mut self.lock()[usize::from(shard)], Instant::now());
        backoff.is_probed = false;
        // Several calls that were in flight together start one back-off.
        if backoff.until.is_none_or(|until| until <= now) {
            backoff.delay = (2 * backoff.delay).clamp(FIRST_BACKOFF, MAX_BACKOFF);
            backoff.until = Some(now + backoff.delay);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ShardBackoff>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call without a reply so far. Dropping it starts a back-off.
#[derive(Debug)]
pub(crate) struct PendingCall<'r> {
    backoffs: &'r ShardBackoffs,
    shard: u16,
}

impl PendingCall<'_> {
    pub(crate) fn replied(self) {
        self.backoffs.reset(self.shard);
        std::mem::forget(self);
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.backoffs.back_off(self.shard);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_to_half_a_minute_and_ends_with_a_reply() {
        let backoffs = ShardBackoffs::of(2);
        for secs in [1, 2, 4, 8, 16, 30, 30] {
            // Several calls are in flight when the shard stops replying.
            drop((backoffs.start_call(1), backoffs.start_call(1)));
            assert!(backoffs.is_backing_off(1) && !backoffs.is_backing_off(0));
            advance(Duration::from_secs(secs) - Duration::from_millis(1)).await;
            assert!(backoffs.take_expired().is_empty(), "{secs}");
            advance(Duration::from_millis(1)).await;
            assert_eq!(backoffs.take_expired(), [1]);
            assert!(backoffs.take_expired().is_empty(), "one probe is enough");
        }
        backoffs.start_call(1).replied();
        assert!(!backoffs.is_backing_off(1));
        drop(backoffs.start_call(1));
        advance(FIRST_BACKOFF).await;
        assert_eq!(backoffs.take_expired(), [1]);
    }
}
