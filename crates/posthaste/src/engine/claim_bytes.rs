//! The size of claims.
//!
//! A claim that takes longer than `store_timeout` is lost, and what it has leased waits until those leases end. Where
//! the line or the server is slow, every claim of large events would end like that. So the next one asks for half as
//! much, and for more again when claims come quickly.

use std::sync::Mutex;
use std::time::Duration;

use crate::mutex::lock;

/// The most bytes of one claim, so that not much more is in memory while it is read than the queues may hold.
const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;

/// Less is not asked for: events would come one by one.
const MIN_CLAIM_BYTES: usize = 64 * 1024;

/// How many bytes the next claim may bring.
#[derive(Debug)]
pub(super) struct ClaimBytes(Mutex<usize>);

impl Default for ClaimBytes {
    fn default() -> Self {
        Self(Mutex::new(MAX_CLAIM_BYTES))
    }
}

impl ClaimBytes {
    pub(super) fn limit(&self) -> usize {
        *lock(&self.0)
    }

    /// A claim of so many bytes has not come in time.
    pub(super) fn was_lost(&self, asked: usize) {
        *lock(&self.0) = (asked.min(MAX_CLAIM_BYTES) / 2).max(MIN_CLAIM_BYTES);
    }

    /// A claim that was as large as it might be took so long. If one of twice as many bytes came in half the time that
    /// is waited for it, the next one may have them.
    pub(super) fn was_full(&self, asked: usize, took: Duration, store_timeout: Duration) {
        let mut limit = lock(&self.0);
        if took * 4 < store_timeout {
            *limit = (*limit).max(asked.saturating_mul(2)).min(MAX_CLAIM_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;
    const TIMEOUT: Duration = Duration::from_secs(8);

    #[test]
    fn claim_that_was_lost_is_followed_by_smaller_ones() {
        let bytes = ClaimBytes::default();
        for mib in [8, 4, 2, 1] {
            bytes.was_lost(bytes.limit());
            assert_eq!(bytes.limit(), mib * MIB);
        }
        for _ in 0..10 {
            bytes.was_lost(bytes.limit());
        }
        assert_eq!(bytes.limit(), MIN_CLAIM_BYTES);
    }

    #[test]
    fn claims_grow_again_when_they_come_quickly() {
        let bytes = ClaimBytes::default();
        bytes.was_lost(8 * MIB);
        bytes.was_full(4 * MIB, Duration::from_secs(2), TIMEOUT);
        assert_eq!(bytes.limit(), 4 * MIB, "twice as many would take half of the time");
        for mib in [8, 16, 16] {
            bytes.was_full(bytes.limit(), Duration::from_secs(1), TIMEOUT);
            assert_eq!(bytes.limit(), mib * MIB);
        }
        bytes.was_lost(16 * MIB);
        bytes.was_full(MIB, Duration::from_secs(1), TIMEOUT);
        assert_eq!(bytes.limit(), 8 * MIB, "one that had little room says nothing");
    }
}
