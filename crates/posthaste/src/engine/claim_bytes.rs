//! The size of claims in bytes, adapted to the speed of the store.
//!
//! A claim that takes longer than `store_timeout` is lost, and the rows that it leased wait until the leases lapse. On
//! a slow line or server, every claim of large events would end like that. So the next claim asks for half the bytes,
//! and for more again when claims are fast.

use std::sync::Mutex;
use std::time::Duration;

use crate::mutex::lock;

/// The most bytes per claim. While a claim is read, it is in memory in addition to the queues.
const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;

/// The fewest bytes per claim. With less, events would come one by one.
const MIN_CLAIM_BYTES: usize = 64 * 1024;

/// How many bytes the next claim may return.
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

    /// A claim that asked for this many bytes timed out.
    pub(super) fn was_lost(&self, asked: usize) {
        *lock(&self.0) = (asked.min(MAX_CLAIM_BYTES) / 2).max(MIN_CLAIM_BYTES);
    }

    /// A claim that returned as many bytes as it asked for took this long. If twice the bytes would arrive within half
    /// the timeout, the next claim may ask for them.
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
    fn claims_grow_again_when_they_are_fast() {
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
