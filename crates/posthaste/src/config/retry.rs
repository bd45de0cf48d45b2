//! How long to wait after a failed attempt, and how often to try.

use std::sync::Arc;
use std::time::Duration;

use crate::store::Backoff;

/// Exponential backoff with jitter: min(`max_delay`, `base_delay` · 2^(n-1)) · random within
/// `jitter`, after the n-th failure; DEAD at `max_attempts`.
///
/// Every input is safe: the arithmetic saturates.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
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
    /// The longest `max_delay` that a configuration may ask for: a year.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

    /// The delay after the failed attempt number `count` (1, 2, …), with jitter.
    pub fn delay(&self, count: u32) -> Duration {
        self.capped(count).mul_f64(self.random_factor())
    }

    /// The delays for every attempt, jitter applied, for the store to pick from.
    pub fn backoff(&self) -> Backoff {
        let counts = self.max_attempts.saturating_sub(1).clamp(1, Backoff::MAX_DELAYS as u32);
        Backoff { max_attempts: self.max_attempts, delays: (1..=counts).map(|n| self.delay(n)).collect() }
    }

    /// The same number of attempts, but always this delay.
    pub(crate) fn backoff_of(&self, delay: Duration) -> Backoff {
        Backoff { max_attempts: self.max_attempts, delays: Arc::new([delay]) }
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
