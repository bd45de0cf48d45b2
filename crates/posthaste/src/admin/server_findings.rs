//! Findings about the server behind a store that several stores share.

use std::time::Duration;

use super::finding_text::{format_duration, format_time};
use super::{Finding, Tolerance};
use crate::time::Timestamp;

impl Finding {
    /// Compares the clock of this process, read before and after the store's, with the store's. `None` if the store's
    /// lies between them or is within the tolerance. Delays, leases and ages use the store's clock; occurrence times
    /// use that of the producer.
    pub fn clock_skew(
        before: Timestamp,
        store: Timestamp,
        after: Timestamp,
        tolerance: &Tolerance,
    ) -> Option<Self> {
        let (gap, how) = match store < before {
            true => (before.since(store), "ahead of"),
            false => (store.since(after), "behind"),
        };
        (gap > tolerance.skew).then(|| {
            Self::warning(
                "clock-skew",
                format!("the clock of this machine is {} {how} the store's", format_duration(gap)),
                "let both take the time from one source (NTP): leases and delays use the store's clock, but \
                 the time of an event comes from its producer's",
            )
        })
    }

    /// This many connections of a server, a database or a user are in use; `None` if enough are left. `whose` names the
    /// limit, and `advice` says what to do.
    pub fn connection_limit(
        whose: &str,
        taken: u64,
        limit: u64,
        tolerance: &Tolerance,
        advice: &str,
    ) -> Option<Self> {
        tolerance.is_used_up(taken, limit).then(|| {
            Self::warning(
                "connection-limit",
                format!("{taken} of the {limit} connections of {whose} are taken"),
                advice,
            )
        })
    }

    /// `who` has had a transaction open for this long; `None` if that is within the tolerance. `advice` says how to end
    /// it.
    pub fn open_transaction(
        who: &str,
        age: Duration,
        now: Timestamp,
        tolerance: &Tolerance,
        advice: impl Into<String>,
    ) -> Option<Self> {
        (age >= tolerance.transaction).then(|| {
            let (open, since) = (format_duration(age), format_time(now - age));
            Self::warning(
                "open-transaction",
                format!(
                    "{who} has had a transaction open for {open}, since {since}: what was settled meanwhile \
                     cannot be cleaned up, and claims get slower"
                ),
                advice,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clock_of_the_store_may_be_between_two_readings_of_ours() {
        let t = Timestamp::from_micros(1_000_000_000);
        let skew = |store, seconds: u32| {
            let tolerance = Tolerance::default().with_skew(seconds * SECOND);
            Finding::clock_skew(t, store, t + SECOND, &tolerance).map(|finding| finding.what)
        };
        assert_eq!(skew(t, 0), None);
        assert_eq!(skew(t + SECOND, 0), None);
        assert_eq!(skew(t + 9 * SECOND, 8), None);
        let behind = skew(t + 90 * SECOND, 8);
        assert_eq!(behind.as_deref(), Some("the clock of this machine is 1m 29s behind the store's"));
        let ahead = skew(t - 90 * SECOND, 8);
        assert_eq!(ahead.as_deref(), Some("the clock of this machine is 1m 30s ahead of the store's"));
    }
}
