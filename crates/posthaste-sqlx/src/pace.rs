//! How soon one settlement follows another.
//!
//! A settle statement costs the server about as much for one row as for ten, and nobody waits for it. So a
//! small batch that follows close behind another one waits for a moment, in which the next outcomes
//! collect, and the server's time is left to those who write. The first one after a pause goes at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// From the end of a settlement to the next small one.
const PAUSE: Duration = Duration::from_millis(4);

/// Batches of so many rows do not wait: they are as large as it takes.
const LARGE: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Waits until it is time for a batch of so many rows.
    pub(crate) async fn wait(&self, rows: usize) {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.filter(|_| rows < LARGE) {
            sleep_until(last + PAUSE).await;
        }
    }

    /// A settlement has ended.
    pub(crate) fn over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(pace: &Pace, rows: usize) -> Duration {
        let started = Instant::now();
        pace.wait(rows).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn small_batch_waits_close_behind_another() {
        let pace = Pace::default();
        assert_eq!(waited(&pace, 1).await, Duration::ZERO);
        pace.over();
        assert_eq!(waited(&pace, LARGE).await, Duration::ZERO);
        assert!(waited(&pace, 1).await >= PAUSE);
        assert_eq!(waited(&pace, 1).await, Duration::ZERO);
    }
}
