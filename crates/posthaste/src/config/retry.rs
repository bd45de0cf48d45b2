//! The retry policy: how often to try, and how long to wait after a failed attempt.

use std::time::Duration;

use crate::store::Backoff;

/// Exponential back-off with jitter: min(`max_delay`, `base_delay` · 2^(n-1)) · random within `jitter`, after the n-th
/// failure; DEAD at `max_attempts`.
///
/// The arithmetic saturates, so every input is safe.
///
/// ```
/// use std::time::Duration;
/// use posthaste::RetryPolicy;
///
/// let retry = RetryPolicy::default().with_max_attempts(5).with_max_delay(Duration::from_secs(10));
/// # let _ = retry;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Failed attempts until an event is DEAD. Default: 10.
    pub max_attempts: u32,
    /// The delay after the first failure, before jitter. Default: 200 ms.
    #[cfg_attr(feature = "serde", serde(with = "super::duration"))]
    pub base_delay: Duration,
    /// The longest delay, before jitter. Default: 60 s.
    #[cfg_attr(feature = "serde", serde(with = "super::duration"))]
    pub max_delay: Duration,
    /// The range of the random factor. Default: 0.5 to 1.5. Equal ends mean no jitter.
    pub jitter: (f64, f64),
}

impl RetryPolicy {
    /// The longest `max_delay` that a configuration may have: a year.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

    /// Sets the failed attempts until an event is DEAD; 1 means no retry. Default: 10.
    #[must_use]
    pub fn with_max_attempts(self, max_attempts: u32) -> Self {
        Self { max_attempts, ..self }
    }

    /// Sets the delay after the first failure, before jitter. It doubles with each failure. Default: 200 ms.
    #[must_use]
    pub fn with_base_delay(self, base_delay: Duration) -> Self {
        Self { base_delay, ..self }
    }

    /// Sets the longest delay, before jitter. Default: 60 s.
    #[must_use]
    pub fn with_max_delay(self, max_delay: Duration) -> Self {
        Self { max_delay, ..self }
    }

    /// Sets the range of the random factor of a delay. Default: 0.5 to 1.5.
    #[must_use]
    pub fn with_jitter(self, low: f64, high: f64) -> Self {
        Self { jitter: (low, high), ..self }
    }

    /// Removes the random factor. For tests.
    #[must_use]
    pub fn without_jitter(self) -> Self {
        self.with_jitter(1.0, 1.0)
    }

    /// The delay after failed attempt number `count` (1, 2, …), with jitter.
    pub fn delay(&self, count: u32) -> Duration {
        self.capped(count).mul_f64(self.random_factor())
    }

    /// The delays of every attempt, with jitter, from which the store picks.
    pub fn backoff(&self) -> Backoff {
        let counts = self.max_attempts.saturating_sub(1).clamp(1, Backoff::MAX_DELAYS as u32);
        Backoff::new(self.max_attempts, (1..=counts).map(|n| self.delay(n)).collect::<Vec<_>>())
    }

    /// The same number of attempts, always with this delay.
    pub(crate) fn backoff_of(&self, delay: Duration) -> Backoff {
        Backoff::new(self.max_attempts, [delay])
    }

    fn capped(&self, count: u32) -> Duration {
        let doublings = count.saturating_sub(1).min(63);
        let nanos = self.base_delay.as_nanos().saturating_mul(1 << doublings);
        let grown = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        grown.min(self.max_delay).min(Self::LONGEST_DELAY)
    }

    fn random_factor(&self) -> f64 {
        let (low, high) = self.jitter;
        let factor = low + (high - low) * fastrand::f64();
        if factor.is_finite() { factor.clamp(0.0, 10.0) } else { 1.0 }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(60),
            jitter: (0.5, 1.5),
        }
    }
}
