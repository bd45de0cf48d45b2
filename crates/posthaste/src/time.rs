//! Timestamps as the stores keep them: microseconds since 1970, in UTC.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant in microseconds since 1970-01-01T00:00:00Z.
///
/// Arithmetic saturates: a time in the far future is a long delay, never a panic.
///
/// ```
/// use std::time::Duration;
/// use posthaste::Timestamp;
///
/// let t = Timestamp::from_micros(0) + Duration::from_secs(90);
/// assert_eq!(t.to_string(), "1970-01-01T00:01:30.000000Z");
/// assert_eq!(t - Timestamp::from_micros(0), Duration::from_secs(90));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `micros` microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The wall clock of this host. Used for `occurred_at` only: everything that decides (due times, leases, lag) uses
    /// the store's clock.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// How long ago `earlier` was, or zero if it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// A duration in whole microseconds, cut to what a timestamp can hold.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(micros(before.duration()).saturating_neg()),
        }
    }
}

/// A time that this host's clock cannot represent becomes 1970.
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        let shown =
            if time.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        shown.unwrap_or(UNIX_EPOCH)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, delay: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(micros(delay)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, delay: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros(delay)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;
    fn sub(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}

/// 9999-12-31T23:59:59.999999Z, the last instant RFC 3339 can write.
const MAX_RFC3339_MICROS: i64 = 253_402_300_799_999_999;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u64::try_from(self.0) {
            Ok(micros) if self.0 <= MAX_RFC3339_MICROS => {
                let time = UNIX_EPOCH + Duration::from_micros(micros);
                write!(f, "{}", humantime::format_rfc3339_micros(time))
            }
            _ => write!(f, "{} µs since 1970", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_instants_print_and_add_without_a_panic() {
        for micros in [i64::MIN, -1, 0, MAX_RFC3339_MICROS, MAX_RFC3339_MICROS + 1, i64::MAX] {
            let t = Timestamp::from_micros(micros);
            assert!(!t.to_string().is_empty());
            let _ = t + Duration::MAX;
            let _ = t - Duration::MAX;
            let _ = t.since(Timestamp::from_micros(i64::MIN));
        }
    }
}
