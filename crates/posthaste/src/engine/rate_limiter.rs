//! The rate limiter of a route: the most events per second.

use std::time::Duration;

use tokio::time::Instant;

/// Spaces events out evenly. Timers tick in milliseconds, so events that are up to [`MAX_CATCH_UP`](Self::MAX_CATCH_UP)
/// late may start together.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_event: Duration,
    free_at: Option<Instant>,
}

impl RateLimiter {
    const MAX_CATCH_UP: Duration = Duration::from_millis(10);

    pub(crate) fn per_second(events: f64) -> Self {
        let seconds = (1.0 / events).min(3600.0);
        Self { per_event: Duration::from_secs_f64(seconds), free_at: None }
    }

    /// How long until the next event may start.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.free_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// This many events start at `now`.
    pub(crate) fn spend(&mut self, events: usize, now: Instant) {
        let earliest = now.checked_sub(Self::MAX_CATCH_UP).unwrap_or(now);
        let from = self.free_at.map_or(now, |at| at.max(earliest));
        self.free_at = Some(from + self.per_event * u32::try_from(events).unwrap_or(u32::MAX));
    }
}
