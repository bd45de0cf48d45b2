//! Settle throttle: a minimum pause between settlements.
//!
//! A settle statement costs the server about as much for one row as for ten, and its latency delays no caller. So a
//! small batch that closely follows another one waits for a moment. More outcomes collect in that time, and the server
//! has more time for writers. The first settlement after a pause runs immediately.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pause from the end of a settlement to the next small one.
const MIN_PAUSE: Duration = Duration::from_millis(4);

/// Batches of at least this many rows do not wait: they are large enough.
const LARGE_BATCH_ROWS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct SettleThrottle(Mutex<Option<Instant>>);

impl SettleThrottle {
    /// Waits until a batch of this many rows may run.
    pub(crate) async fn wait(&self, rows: usize) {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.filter(|_| rows < LARGE_BATCH_ROWS) {
            sleep_until(last + MIN_PAUSE).await;
        }
    }

    /// Records the end of a settlement.
    pub(crate) fn over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(throttle: &SettleThrottle, rows: usize) -> Duration {
        let started = Instant::now();
        throttle.wait(rows).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn small_batch_waits_close_behind_another() {
        let throttle = SettleThrottle::default();
        assert_eq!(waited(&throttle, 1).await, Duration::ZERO);
        throttle.over();
        assert_eq!(waited(&throttle, LARGE_BATCH_ROWS).await, Duration::ZERO);
        assert!(waited(&throttle, 1).await >= MIN_PAUSE);
        assert_eq!(waited(&throttle, 1).await, Duration::ZERO);
    }
}
