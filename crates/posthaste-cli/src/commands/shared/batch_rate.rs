//! Pacing of a change of many events: the size of its batches, and when the next one may start.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use crate::stop::Stop;

/// Events per call of the store. Each call is one transaction, which must not block other writers for long.
pub(in crate::commands) const MAX_BATCH_EVENTS: usize = 500;

/// Batches per second if a rate is given: small enough to be even, large enough to be cheap.
const BATCHES_PER_SECOND: u32 = 10;

/// Decides when the next batch may start. Time lost by a slow batch is not made up, because the rate is a limit and not
/// an average.
#[derive(Debug)]
pub(in crate::commands) struct BatchRate {
    per_second: Option<NonZeroU32>,
    next: Instant,
    stop: Stop,
}

impl BatchRate {
    /// At most this many events per second, until `stop` is requested.
    pub(in crate::commands) fn new(per_second: Option<NonZeroU32>, stop: Stop) -> Self {
        Self { per_second, next: Instant::now(), stop }
    }

    /// The maximum number of events in a batch.
    pub(in crate::commands) fn batch(&self) -> usize {
        let tenth = |rate: NonZeroU32| rate.get().div_ceil(BATCHES_PER_SECOND) as usize;
        self.per_second.map_or(MAX_BATCH_EVENTS, |rate| tenth(rate).min(MAX_BATCH_EVENTS))
    }

    /// Waits until the next batch may start. Returns `false` if the stop was requested.
    pub(in crate::commands) async fn wait_for_turn(&mut self) -> bool {
        self.stop.wait_until(self.next).await
    }

    /// Waits, independently of the rate. Returns `false` if the stop was requested.
    pub(in crate::commands) async fn wait(&self, duration: Duration) -> bool {
        self.stop.wait_until(Instant::now() + duration).await
    }

    /// Records a finished batch, which started at `began` and changed this many events.
    pub(in crate::commands) fn record(&mut self, began: Instant, events: u64) {
        if let Some(rate) = self.per_second {
            self.next = began + Duration::from_secs_f64(events as f64 / f64::from(rate.get()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_rate(per_second: u32) -> BatchRate {
        BatchRate::new(NonZeroU32::new(per_second), Stop::never())
    }

    #[test]
    fn batches_are_small_where_there_is_a_rate() {
        for (rate, batch) in
            [(0, MAX_BATCH_EVENTS), (1, 1), (25, 3), (1_000, 100), (100_000, MAX_BATCH_EVENTS)]
        {
            assert_eq!(batch_rate(rate).batch(), batch, "{rate}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_batch_is_not_made_up_for() {
        let (mut batch_rate, start) = (batch_rate(10), Instant::now());
        for took_ms in [0, 950, 0, 0] {
            assert!(batch_rate.wait_for_turn().await);
            let began = Instant::now();
            tokio::time::advance(Duration::from_millis(took_ms)).await;
            batch_rate.record(began, 1);
        }
        assert!(batch_rate.wait_for_turn().await);
        // 100 ms each, except after the slow one.
        assert_eq!(start.elapsed().as_millis() / 10, 125);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_ends_the_wait() {
        let stop = Stop::never();
        let mut batch_rate = BatchRate::new(NonZeroU32::new(1), stop.clone());
        batch_rate.record(Instant::now(), 1_000_000);
        stop.request();
        assert!(!batch_rate.wait_for_turn().await);
        assert!(!batch_rate.wait(Duration::from_secs(3600)).await);
    }
}
